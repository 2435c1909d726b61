"""python -m tests.proofs postgres|outbox|spark ..."""

import sys

from tests.proofs.runner import main

sys.exit(main())
