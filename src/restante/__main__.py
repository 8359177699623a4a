"""`python -m restante`: the command line, where no script of it is installed."""

from restante.cli.main import main

if __name__ == "__main__":
    main()
