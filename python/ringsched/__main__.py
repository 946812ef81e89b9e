"""The command `ringsched`."""

import sys

from ._core import _command


def main() -> None:
    sys.exit(_command(["ringsched", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
