#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the tree to the layer table of src/README.md: a room includes only itself and the rooms that its row allows.

check_layers.py [ROOT]    prints every violation; exit code 1 if there is one

The table there is the only copy of the rule; the "May use" line of each room's meson.build must say the same.
"""
import re
import sys
from pathlib import Path

SOURCES = {".cpp", ".hpp", ".h", ".c"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')
ROW = re.compile(r"^\|\s*`(\w+)`\s*\|[^|]*\|\s*([^|]*?)\s*\|\s*$")
MAY_USE = re.compile(r"^# May use: (.*?)\.?$", re.M)


def rooms_of(text: str, above: list) -> set:
    """The rooms that a cell names: "all the above", "(nothing)" or a list."""
    if text == "all the above":
        return set(above)
    if text == "(nothing)":
        return set()
    return set(re.findall(r"\w+", text))


def parse_table(readme: str) -> tuple:
    """The table as {room: rooms it may use}, in its order, and what is wrong with the table itself."""
    table, errors = {}, []
    for line in readme.splitlines():
        row = ROW.match(line)
        if not row:
            continue
        room, allowed = row.group(1), rooms_of(row.group(2), list(table))
        errors += [f"src/README.md: {room} may use {other}, which is not a row above it"
                   for other in sorted(allowed - set(table))]
        table[room] = allowed
    if not table:
        errors.append("src/README.md: no layer table (rows | `room` | what it holds | rooms it may use |)")
    return table, errors


def room_of_include(path: str, table: dict) -> str:
    """The room that an include names, or "" (system headers, files beside the including one)."""
    parts = path.removeprefix("framelane/").split("/")
    return parts[0] if len(parts) > 1 and parts[0] in table else ""


def check_file(path: Path, room: str, table: dict, root: Path) -> list:
    errors = []
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        include = INCLUDE.match(line)
        if not include:
            continue
        where = f"{path.relative_to(root)}:{number}"
        if ".." in include.group(1).split("/"):
            errors.append(f"{where}: includes {include.group(1)}; name the room instead of climbing with ..")
        used = room_of_include(include.group(1), table)
        if used and used != room and used not in table[room]:
            allowed = ", ".join(other for other in table if other in table[room]) or "nothing"
            errors.append(f"{where}: room {room} includes {include.group(1)} of room {used}; it may use: {allowed}")
    return errors


def check_may_use(room: str, table: dict, root: Path) -> list:
    build = root / "src" / room / "meson.build"
    if not build.exists():
        return []
    said = MAY_USE.search(build.read_text())
    if not said:
        return [f"src/{room}/meson.build: no line \"# May use: ...\""]
    text = said.group(1)
    above = list(table)[:list(table).index(room)]
    named = set(above) if text.startswith("all the ") else rooms_of(text, above)
    if named != table[room]:
        return [f"src/{room}/meson.build: \"May use: {text}\" differs from the table: {', '.join(sorted(table[room]))}"]
    return []


def check_strays(root: Path, table: dict) -> list:
    """A folder that isn't a room would escape the check."""
    rooms, above = set(table), {"cli", "python"}  # above: on top of the rooms, so no room may include them
    errors = [f"src/{folder.name}: not a row of the layer table" for folder in sorted((root / "src").iterdir())
              if folder.is_dir() and folder.name not in rooms | above]
    return errors + [f"include/framelane/{folder.name}: not a row of the layer table"
                     for folder in sorted((root / "include/framelane").iterdir())
                     if folder.is_dir() and folder.name not in rooms]


def check_tree(root: Path) -> tuple:
    """(number of files read, violations)"""
    readme = root / "src/README.md"
    table, errors = parse_table(readme.read_text() if readme.exists() else "")
    count = 0
    for room in table:
        errors += check_may_use(room, table, root)
        for folder in (root / "src" / room, root / "include/framelane" / room, root / "tests" / room):
            for path in sorted(folder.rglob("*")):
                if path.suffix in SOURCES:
                    count += 1
                    errors += check_file(path, room, table, root)
    return count, errors + check_strays(root, table)


def main(arguments: list) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent.parent
    count, errors = check_tree(root)
    print("\n".join(errors) if errors else f"{count} files keep to the layer table")
    return 1 if errors or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
