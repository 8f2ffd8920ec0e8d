"""`python -m headrace` is `headrace`, also where scripts are not on the path."""

from headrace.cli import main

if __name__ == "__main__":
    main()
