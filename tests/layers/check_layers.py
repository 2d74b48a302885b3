#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the tree to the layer table of src/README.md: a room includes only itself and the rooms that its row allows.

check_layers.py [ROOT]    prints every violation; exit code 1 if there is one

The tables there are the only copy of the rule; the "May use" line of each room's meson.build must say the same.
"""
import re
import sys
from pathlib import Path

SOURCES = {".cpp", ".hpp", ".h", ".c"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')
ABOVE = re.compile(r"^\|\s*`([\w/]+)`\s*\|\s*([^|]*?)\s*\|\s*$")
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


def includes_in(folder: Path) -> tuple:
    """(number of files, [(path, line number, what is included)]) of a folder."""
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix in SOURCES]
    found = [(path, number, include.group(1)) for path in paths
             for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
             if (include := INCLUDE.match(line))]
    return len(paths), found


def check_room(room: str, table: dict, root: Path) -> tuple:
    count, errors = 0, []
    for folder in (root / "src" / room, root / "include/framelane" / room, root / "tests" / room):
        files, includes = includes_in(folder)
        count += files
        for path, number, include in includes:
            where = f"{path.relative_to(root)}:{number}"
            if ".." in include.split("/"):
                errors.append(f"{where}: includes {include}; name the room instead of climbing with ..")
            used = room_of_include(include, table)
            if used and used != room and used not in table[room]:
                allowed = ", ".join(other for other in table if other in table[room]) or "nothing"
                errors.append(f"{where}: room {room} includes {include} of room {used}; it may use: {allowed}")
    return count, errors


def check_above(folder: str, allowed: set, table: dict, root: Path) -> tuple:
    """A folder on top of the rooms: every public header, and private ones of the rooms that the second table allows."""
    count, includes = includes_in(root / folder)
    errors = []
    for path, number, include in includes:
        own = (path.parent.parent / include).exists()  # plugins/lane/slots.hpp is "lane/slots.hpp" for its neighbours
        used = "" if own or include.startswith("framelane/") else room_of_include(include, table)
        if used and used not in allowed:
            errors.append(f"{path.relative_to(root)}:{number}: {folder} includes {include}, a private header of room "
                          f"{used}; it may use those of: {', '.join(sorted(allowed)) or 'none'}")
    return count, errors


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
    """A folder of code that isn't a room would escape the check. (src/cmake has templates only.)"""
    rooms, above = set(table), {"cli", "python"}  # above: on top of the rooms, so no room may include them
    errors = [f"src/{folder.name}: not a row of the layer table" for folder in sorted((root / "src").iterdir())
              if folder.is_dir() and folder.name not in rooms | above and includes_in(folder)[0] != 0]
    return errors + [f"include/framelane/{folder.name}: not a row of the layer table"
                     for folder in sorted((root / "include/framelane").iterdir())
                     if folder.is_dir() and folder.name not in rooms]


def check_tree(root: Path) -> tuple:
    """(number of files read, violations)"""
    readme = root / "src/README.md"
    text = readme.read_text() if readme.exists() else ""
    table, errors = parse_table(text)
    above = [row.groups() for row in map(ABOVE.match, text.splitlines()) if row]
    checked = [check_room(room, table, root) for room in table]
    checked += [check_above(folder, rooms_of(cell, []), table, root) for folder, cell in above]
    for room in table:
        errors += check_may_use(room, table, root)
    for _, found in checked:
        errors += found
    return sum(count for count, _ in checked), errors + check_strays(root, table)


def main(arguments: list) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent.parent
    count, errors = check_tree(root)
    print("\n".join(errors) if errors else f"{count} files keep to the layer table")
    return 1 if errors or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
