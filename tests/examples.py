"""How many examples the tests that make up their own are given, and whether they are the same ones every time.

As a gate they are the same, so that what failed fails again and a change is judged by what it changed. To find
something new is another matter, with more time for it: `make explore` tries others each time, and many more.
"""

import os

TIMES = int(os.environ.get("RESTANTE_EXAMPLES_TIMES", "1"))
ALWAYS_THE_SAME = TIMES == 1
