"""`python -m oncelog.broker serve …`."""

from oncelog.broker.daemon.cli import main

if __name__ == "__main__":
    main(prog_name="python -m oncelog.broker")
