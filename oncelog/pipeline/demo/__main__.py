"""`python -m oncelog.pipeline.demo`."""

import sys

from oncelog.pipeline.demo.show import main

if __name__ == "__main__":
    sys.exit(main())
