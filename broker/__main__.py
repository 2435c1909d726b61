"""`python -m broker serve …`."""

from broker.cli import main

if __name__ == "__main__":
    main(prog_name="python -m broker")
