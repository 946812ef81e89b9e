"""What the program prints in a terminal: a pseudo-terminal of a given width, colours and locale.

usage: terminal_test.py path/to/ringsched
"""

import fcntl
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import unittest

PROGRAM = pathlib.Path(sys.argv.pop()).resolve() if len(sys.argv) > 1 else None
UTF8 = {"LC_ALL": "C.UTF-8"}


def on_terminal(arguments, columns, **environment):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    base = {k: v for k, v in os.environ.items()
            if k not in ("COLUMNS", "NO_COLOR", "COLORTERM", "TERM", "LC_ALL", "LC_CTYPE", "LANG")}
    program = subprocess.Popen([PROGRAM, *arguments.split()], stdout=theirs, stdin=theirs,
                               stderr=subprocess.DEVNULL, env={**base, **environment})
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 65536):
            text += part
    except OSError:
        pass  # the other end is closed
    os.close(ours)
    assert program.wait(60) == 0
    return text.decode().replace("\r\n", "\n")


def widest(text):
    return max(len(line) for line in re.sub(r"\033\[[0-9;]*m", "", text).split("\n"))


class Terminal(unittest.TestCase):
    def test_a_locale_without_utf8_gets_ascii(self):
        for setting in ({"LC_ALL": "C"}, {"LANG": "POSIX"}, {"LC_CTYPE": "de_DE.ISO-8859-1", "LANG": "C.UTF-8"}):
            text = on_terminal("simulate -w 4", 100, **setting)
            self.assertTrue(text.isascii(), text)
            self.assertIn("# attend  + overhead  - wait  . done", text)
        for setting in ({}, UTF8, {"LANG": "en_GB.utf8"}):
            self.assertIn("█ attend", on_terminal("simulate -w 4", 100, **setting))

    def test_colours_are_those_the_terminal_has(self):
        every = {"TERM": "xterm-256color", "COLORTERM": "truecolor", **UTF8}
        self.assertIn("\033[48;2;", on_terminal("simulate -w 4", 100, **every))
        some = on_terminal("simulate -w 4", 100, TERM="xterm-256color", **UTF8)
        self.assertIn("\033[48;5;", some)
        self.assertNotIn("48;2;", some)
        for none in ({"TERM": "dumb"}, {"TERM": "vt100"}, {}, {**every, "NO_COLOR": "1"}):
            self.assertNotIn("\033", on_terminal("simulate -w 4", 100, **{**UTF8, **none}))

    def test_tables_keep_to_the_width(self):
        for arguments in ("simulate -w 4 -m dgx-a100", "sweep -m dgx-a100 -s ring,zigzag", "machines"):
            self.assertLessEqual(widest(on_terminal(arguments, 90, **UTF8)), 90, arguments)
        table = on_terminal("sweep -m dgx-a100 -s ring,zigzag", 60, **UTF8)
        self.assertEqual(table.count("   schedule"), 2)
        self.assertLessEqual(widest("\n".join(table.split("\n")[1:])), 60)
        self.assertEqual(on_terminal("sweep -m dgx-a100 -s ring,zigzag", 200, COLUMNS="60", **UTF8), table)

    def test_text_keeps_to_the_width(self):
        for arguments in ("sweep -m hgx-h100x4-ib400 -w 32 -s zigzag,ulysses -t 256K", "simulate -m hgx-h100x4-ib400 -w 32",
                          "simulate -m dgx-a100 --noise 5% --slow-worker 3:2 --runs 3", "plan -s usp --pass both", "machines",
                          "schedules usp", "schedules flash-decode", "schedules ring", "schedules"):
            self.assertLessEqual(widest(on_terminal(arguments, 80, **UTF8)), 80, arguments)

        for arguments in ("simulate -m hgx-h100x4-ib400 -w 32", "simulate -m dgx-a100 --noise 5% --slow-worker 3:2 --runs 3"):
            self.assertLessEqual(widest(on_terminal(arguments, 60, **UTF8)), 60, arguments)

    def test_nobody_hears_of_a_pipe_that_was_closed(self):
        """Here the parent ignores SIGPIPE, as Python does, so the program meets the error itself."""
        for arguments in ("schedules", "machines dgx-a100", "plan -w 16 --pass both", "--help"):
            ours, theirs = os.pipe()
            os.close(ours)
            ended = subprocess.run([PROGRAM, *arguments.split()], stdout=theirs, stderr=subprocess.PIPE, text=True,
                                   restore_signals=False)
            os.close(theirs)
            self.assertEqual((ended.returncode, ended.stderr), (128 + signal.SIGPIPE, ""), arguments)

    def test_a_pipe_gets_whole_rows(self):
        arguments = [PROGRAM, "sweep", "-m", "dgx-a100", "-s", "ring,zigzag"]
        piped = subprocess.run(arguments, capture_output=True, text=True, env={**os.environ, **UTF8, "COLUMNS": "40"})
        self.assertEqual(piped.stdout.count("schedule"), 1)

    def test_many_workers_are_summarised(self):
        text = on_terminal("simulate -w 40", 100, **UTF8)
        self.assertIn("(each row is the mean of up to 3 workers; --gantt FILE draws all 40)", text)
        rows = re.findall(r"^ *(\d+)(?:-(\d+))?  [█▓░·]+", text, re.M)
        covered = [w for first, last in rows for w in range(int(first), int(last or first) + 1)]
        self.assertEqual(covered, list(range(40)))


if __name__ == "__main__":
    unittest.main()
