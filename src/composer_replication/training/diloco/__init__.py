"""DiLoCo on torchft: replicas far apart train alone for a window of steps, then average how far each one has moved."""

import os

# torchft tells the whole quorum on stderr at every meeting. It reads this when it is first imported.
os.environ.setdefault("RUST_LOG", "warn")
