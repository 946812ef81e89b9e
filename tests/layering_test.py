"""Checks that includes follow the layers, and that this check can fail.

  scheduler <- timeline, machine <- simulator, runtime, viz (which know nothing of each other) <- cli
  cli <- python, which does without runtime
  (machine is for simulator alone; timeline and machine do not know each other)
  scheduler/verify/: nothing of the builder or the schedules, not even indirectly

and that no two files define types of the same name in the same namespace: in one program, one of them
would silently replace the other.
"""

import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAY_INCLUDE = {
    "scheduler": {"scheduler"},
    "timeline": {"scheduler", "timeline"},
    "machine": {"scheduler", "machine"},
    "simulator": {"scheduler", "timeline", "machine", "simulator"},
    "runtime": {"scheduler", "timeline", "runtime"},
    "viz": {"scheduler", "timeline", "viz"},
    "cli": {"scheduler", "timeline", "machine", "simulator", "runtime", "viz", "cli"},
    "python": {"scheduler", "timeline", "machine", "simulator", "viz", "cli", "python"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
SOURCES = {".cpp", ".hpp", ".h", ".cu", ".cuh"}
MAKES_PLANS = re.compile(r"schedules/|builder/|(builder|schedule|registry)[^/]*$")


TOKEN = re.compile(  # what is skipped comes first: comments, texts, directives
    r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|^\s*\#(?:[^\n\\]|\\.|\\\n)*"""
    r"""|(?P<word>[A-Za-z_]\w*|::|[{};()=])""", re.DOTALL | re.MULTILINE)
TYPE = re.compile(r"^(?:template .*)?(?:struct|class|union|enum(?: class| struct)?) (\w+(?: :: \w+)*)(?: final)?(?: .*)?$")


def sources(root: Path) -> list[Path]:
    found = (p for part in MAY_INCLUDE for p in sorted((root / part).rglob("*")))
    return [p for p in found if p.suffix in SOURCES]


def includes(root: Path, file: Path) -> list[tuple[str, Path | None]]:
    """What `file` includes of this project, as written and as found (None: nowhere)."""
    part = file.relative_to(root).parts[0]
    result = []
    for bracket, name in INCLUDE.findall(file.read_text(encoding="utf-8")):
        ours = re.match(r"ringsched/(\w+)/", name)
        if bracket == "<" and not ours:
            continue
        if ours:
            places = [root / ours[1] / "include"]
        else:
            places = [file.parent, root / part, root]
        found = [(p / name).resolve() for p in places if (p / name).is_file()]
        result.append((name, found[0] if found else None))
    return result


def violations(root: Path) -> list[str]:
    root = root.resolve()
    found = []
    for file in sources(root):
        here = file.relative_to(root)
        for name, target in includes(root, file):
            if target is None or not target.is_relative_to(root):
                found.append(f"{here}: includes {name}, which is no file of this project")
            elif target.relative_to(root).parts[0] not in MAY_INCLUDE[here.parts[0]]:
                found.append(f"{here}: {here.parts[0]} may not include {name}")
        if here.parts[:2] == ("scheduler", "verify"):
            for met in sorted(reachable(root, file)):
                if MAKES_PLANS.search(str(met.relative_to(root / "scheduler"))):
                    found.append(f"{here}: depends on {met.relative_to(root)}, which it judges")
    return found


def reachable(root: Path, file: Path) -> set[Path]:
    met, left = set(), [file]
    while left:
        for _, target in includes(root, left.pop()):
            if target and target.is_relative_to(root / "scheduler") and target not in met:
                met.add(target)
                left.append(target)
    return met


def types(text: str) -> list[str]:
    """The types that other files could link with: all that a named namespace defines itself."""
    found, scopes, said = [], [], []  # a scope is a namespace's name, or None: unnamed, or no namespace
    for token in TOKEN.finditer(text):
        word = token["word"]
        if word == "{":
            head = " ".join(said)
            if named := re.fullmatch(r"(?:inline )?namespace(?: (.+))?", head):
                scopes.append(named[1])
            else:
                if None not in scopes and "(" not in said and "=" not in said and (defines := TYPE.match(head)):
                    found.append("::".join([*scopes, defines[1]]).replace(" ", ""))
                scopes.append(None)
        elif word == "}" and scopes:
            scopes.pop()
        elif word and word not in "{};":
            said.append(word)
        if word and word in "{};":
            said = []
    return found


def defined_twice(root: Path) -> list[str]:
    files: dict[str, list[Path]] = {}
    for file in sources(root):
        for name in types(file.read_text(encoding="utf-8")):
            files.setdefault(name, []).append(file.relative_to(root))
    return [f"{name}: {', '.join(map(str, where))}" for name, where in files.items() if len(where) > 1]


class Layering(unittest.TestCase):
    def test_this_repository(self):
        self.assertTrue(sources(ROOT), "no sources found: nothing was checked")
        self.assertEqual(violations(ROOT), [])

    def broken(self, files: dict[str, str]) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return violations(Path(folder))

    def test_allowed(self):
        files = {
            "scheduler/include/ringsched/scheduler/plan.hpp": "#include <vector>\n",
            "viz/include/ringsched/viz/svg.hpp": '#include "ringsched/scheduler/plan.hpp"\n',
            "cli/main.cpp": '#include <CLI/CLI.hpp>\n#include "ringsched/viz/svg.hpp"\n',
        }
        self.assertEqual(self.broken(files), [])

    def test_layers_are_told_apart(self):
        headers = {f"{p}/include/ringsched/{p}/x.hpp": "" for p in MAY_INCLUDE}
        for part, allowed in MAY_INCLUDE.items():
            for other in MAY_INCLUDE.keys() - allowed:
                for line in (
                    f'#include "ringsched/{other}/x.hpp"\n',
                    f"#  include <ringsched/{other}/x.hpp>\n",
                    f'#include "../{other}/include/ringsched/{other}/x.hpp"\n',
                ):
                    with self.subTest(part=part, line=line):
                        self.assertEqual(len(self.broken(headers | {f"{part}/a.cpp": line})), 1)

    def test_unknown_file(self):
        self.assertEqual(len(self.broken({"viz/a.cpp": '#include "gone.hpp"\n'})), 1)

    def test_verifier_is_independent(self):
        api = "scheduler/include/ringsched/scheduler"
        files = {
            f"{api}/builder.hpp": "",
            f"{api}/plan.hpp": "",
            f"{api}/mid.hpp": '#include "ringsched/scheduler/builder.hpp"\n',
            "scheduler/schedules/ring.hpp": "",
            "scheduler/builder/tape.hpp": "",
        }
        for name, count in [
            ("ringsched/scheduler/plan.hpp", 0),
            ("ringsched/scheduler/builder.hpp", 1),
            ("ringsched/scheduler/mid.hpp", 1),  # indirectly
            ("schedules/ring.hpp", 1),
            ("builder/tape.hpp", 1),
        ]:
            with self.subTest(include=name):
                verifier = {"scheduler/verify/order.cpp": f'#include "{name}"\n'}
                self.assertEqual(len(self.broken(files | verifier)), count)

    def test_no_type_is_defined_twice(self):
        self.assertGreater(sum(len(types(f.read_text(encoding="utf-8"))) for f in sources(ROOT)), 100, "types are not found")
        self.assertEqual(defined_twice(ROOT), [])

    def test_types_are_told_apart(self):
        for text, names in (
            ("namespace a { struct X { int y; }; class Y final : public X { enum class Z { One }; }; }", ["a::X", "a::Y"]),
            ("namespace a::b { template <class T> struct X {}; struct X::Part {}; }", ["a::b::X", "a::b::X::Part"]),
            ("namespace { struct X {}; } namespace a { namespace { struct Y {}; } enum Z { };  }", ["a::Z"]),
            ("namespace a { struct X; struct X make(int) { struct Y {}; } constexpr struct X x = {}; }", []),
            ("namespace a { // struct X {\n const char* t = \"struct X {\"; }", []),
        ):
            with self.subTest(text=text):
                self.assertEqual(types(text), names)
        with tempfile.TemporaryDirectory() as folder:
            for part in ("runtime", "simulator", "viz"):
                Path(folder, part).mkdir()
                unnamed = "namespace {" if part == "viz" else ""
                Path(folder, part, "a.hpp").write_text(f"namespace ours {{ {unnamed} struct Message {{ }}; {'}' * len(unnamed[:1])} }}",
                                                       encoding="utf-8")
            self.assertEqual(defined_twice(Path(folder)), ["ours::Message: simulator/a.hpp, runtime/a.hpp"])

    def test_the_page_on_how_runs_end_names_what_is_there(self):
        page = (ROOT / "docs/decisions/run-ending.md").read_text(encoding="utf-8")
        named = re.findall(r"`([\w/]+\.[ch]pp)`: ((?:`[^`]+`(?:, )?)+)", page)
        self.assertEqual(len(re.findall(r"^\| \d+ \|", page, re.MULTILINE)), 10)
        self.assertGreater(len(named), 15)
        for file, names in named:
            text = (ROOT / file).read_text(encoding="utf-8")
            for name in re.findall(r"`([^`]+)`", names):
                with self.subTest(file=file, name=name):
                    # A function of a class that is defined inside it has no qualified name there.
                    self.assertTrue(name in text or "::" in name and all(part in text for part in name.split("::")))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
