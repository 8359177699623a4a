"""How many examples property-based tests get, and whether they are the same in every run.

By default they are the same, so that a failure is reproducible and a change is judged by its effect. `make explore`
tries many more examples, and other ones each time.
"""

import os

EXAMPLES_FACTOR = int(os.environ.get("RESTANTE_EXAMPLES_TIMES", "1"))
IS_DETERMINISTIC = EXAMPLES_FACTOR == 1
