"""Every rule of variables and of observability, through a YAML file: the line, the path and what is said."""

from __future__ import annotations

from tests.cases import cases

from .reading import problems, read

_VARIABLES = """\
simulation: {name: rules}
agents: [A]
state_variables:
  agent_vars:
    fine: {type: int, default: 0}
    v:
"""
_INNER = "state_variables.agent_vars.v"


def _dicts(levels: int) -> str:
    inner = "int"
    for _ in range(levels):
        inner = f"{{type: dict, key_type: str, value_type: {inner}}}"
    return inner


def _lists(levels: int) -> str:
    inner = "int"
    for _ in range(levels):
        inner = f"{{type: list, item_type: {inner}}}"
    return inner


def _tuples(levels: int) -> str:
    inner = "int"
    for _ in range(levels):
        inner = f"{{type: tuple, item_types: [{inner}]}}"
    return inner


#: Each rule of docs/reference/simulation-config.md, "Fields": the definition, the path below it, words of the message.
_RULES = [
    # types and fields
    ("{}", ".type", "a type is missing"),
    ("{type: flaot}", ".type", "did you mean 'float'?"),
    ("float", "", "write {type: float}"),
    ("{type: float, mix: 1}", ".mix", "unknown field 'mix'; did you mean 'min'?"),
    ("{type: bool, min: 1}", ".min", "min does not belong to type bool"),
    ("{type: dict, key_type: str, value_type: int, max_length: 3}", ".max_length", "does not belong to type dict"),
    # float, int, bool, categorical
    ("{type: float, min: 5, max: 1, default: 3}", ".min", "min 5 is greater than max 1"),
    ("{type: float, min: low}", ".min", "min is a number"),
    ("{type: int, min: 0.2, max: 0.8}", ".min", "no whole number"),
    ("{type: float, max: 1, default: 2}", ".default", "less than or equal to 1"),
    ("{type: int, default: 1.5}", ".default", "valid integer"),
    ("{type: bool, default: maybe}", ".default", "valid boolean"),
    ("{type: categorical, default: a}", ".values", "a categorical has values"),
    ("{type: categorical, values: []}", ".values", "a categorical has values"),
    ("{type: categorical, values: [a, a]}", ".values[1]", "stands there twice"),
    ("{type: categorical, values: [a, b], default: c}", ".default", "'a' or 'b'"),
    # dict: exactly one mode, key_type, depth, default
    ("{type: dict}", "", "either key_type and value_type, or a schema"),
    ("{type: dict, key_type: str}", "", "value_type"),
    ("{type: dict, value_type: int}", "", "key_type"),
    ("{type: dict, key_type: str, value_type: int, schema: {a: {type: int}}}", "", "cannot be combined"),
    ("{type: dict, key_type: float, value_type: int}", ".key_type", "key_type is str or int, but is 'float'"),
    ("{type: dict, key_type: str, value_type: categorical}", ".value_type", "with its values"),
    (_dicts(5), ".value_type.value_type.value_type.value_type", "maximum depth of 4 levels"),
    ("{type: dict, key_type: str, value_type: int, default: {a: x}}", ".default.a", "valid integer"),
    ("{type: dict, key_type: str, value_type: int, default: {1: 2}}", ".default", "quote it"),
    ("{type: dict, key_type: int, value_type: int, default: {a: 2}}", ".default.a", "whole number"),
    ("{type: dict, schema: {a: {type: int}}, default: {b: 1}}", ".default.a", "required"),
    ("{type: dict, schema: {}}", ".schema", "1 to 1000 fields"),
    # list: item_type, max_length, depth, default
    ("{type: list}", ".item_type", "item_type is missing"),
    ("{type: list, item_type: int, max_length: 0}", ".max_length", "1000"),
    ("{type: list, item_type: int, max_length: 1001}", ".max_length", "1000"),
    (_lists(4), ".item_type.item_type.item_type", "maximum depth of 3 levels"),
    ("{type: list, item_type: int, default: [1, x]}", ".default[1]", "valid integer"),
    (
        "{type: list, item_type: int, max_length: 2, default: [1, 2, 3]}",
        ".default",
        "maximum size of 2 items (got 3 items)",
    ),
    # tuple: item_types, per-element constraints, length, overall depth
    ("{type: tuple, default: []}", ".item_types", "a tuple has item_types"),
    ("{type: tuple, item_types: [int, str], default: [1]}", ".default", "too short"),
    ("{type: tuple, item_types: [int, str], default: [1, a, b]}", ".default", "2 elements (got 3)"),
    ("{type: tuple, item_types: [{type: int, max: 255}], default: [256]}", ".default[0]", "less than or equal to 255"),
    (_tuples(11), ".item_types[0]" * 10, "maximum depth of 10 levels"),
    # str: pattern, max_length, default
    ("{type: str, pattern: '[a'}", ".pattern", "too early"),
    ("{type: str, pattern: '(?=a)b'}", ".pattern", "look-ahead is not supported"),
    ("{type: str, pattern: '(a)\\1'}", ".pattern", "back-references are not supported"),
    ("{type: str, max_length: 0}", ".max_length", "> 0"),
    ("{type: str, pattern: '[A-Z]+', default: 'Abc'}", ".default", "[A-Z]+"),
    ("{type: str, max_length: 2, default: abc}", ".default", "maximum length of 2 characters (got 3 characters)"),
    # object: schema, required fields, default
    ("{type: object}", ".schema", "1 to 1000 fields"),
    ("{type: object, schema: {1a: {type: int}}}", ".schema.1a", "is no name"),
    ("{type: object, schema: {a: {type: int, min: x}}}", ".schema.a.min", "min is a number"),
    ("{type: object, schema: {a: {type: int}}, default: {}}", ".default.a", "required"),
    ("{type: object, schema: {a: {type: int}}, default: {a: 1, b: 2}}", ".default.b", ""),
]


@cases("definition, path, words", _RULES)
def test_rules_of_variables(definition: str, path: str, words: str) -> None:
    """A definition that breaks a rule is told at its line, by the path of what breaks it."""
    found = problems(_VARIABLES + f"      {definition}\n")
    assert found
    assert all(line in {6, 7} for line, _, _ in found)
    assert any(told.startswith(_INNER + path) and words in message for _, told, message in found), found


#: What is good.
_GOOD = [
    "{type: dict, key_type: str, value_type: float, default: {}}",
    "{type: dict, schema: {hp: {type: float, min: 0, max: 100, default: 100}}, default: {hp: 100}}",
    "{type: dict, key_type: str, value_type: {type: dict, schema: {n: {type: int, default: 1}}}, default: {}}",
    _dicts(4),
    "{type: list, item_type: str, max_length: 10, default: []}",
    "{type: list, item_type: {type: tuple, item_types: [float, float]}, max_length: 100, default: []}",
    _lists(3),
    "{type: tuple, item_types: [float, float], default: [0.0, 0.0]}",
    "{type: tuple, item_types: [int, str, {type: tuple, item_types: [float, float]}], default: [0, Unknown, [0, 0]]}",
    "{type: str, default: null}",
    "{type: str, pattern: '^[A-Za-z][A-Za-z0-9_]{2,19}$', max_length: 20, default: Agent_1}",
    "{type: str, max_length: 500, default: ''}",
    "{type: object, schema: {name: {type: str, default: Capital}, at: {type: tuple, item_types: [int], default: [1]}}}",
]


@cases("definition", _GOOD)
def test_good_definitions(definition: str) -> None:
    """Good definitions are read, and begin with their defaults."""
    assert "v" in read(_VARIABLES + f"      {definition}\n").initial_agents()["A"]


@cases("name", ["_x", "1x", "a b", "", "'a.b'", "x" * 201, "name"])
def test_names_of_variables(name: str) -> None:
    """A variable has the name of an attribute, and none that stands for something else."""
    ((line, _, _),) = problems(
        _VARIABLES.replace("    v:", f"    ? {name or repr(name)}\n    :") + "      {type: int}\n"
    )
    assert line == 6


_OBSERVED = """\
simulation: {name: seen}
agents: [Agent1, Agent2]
state_variables:
  agent_vars:
    strength: {type: float, default: 1}
    reserves: {type: float, default: 1}
  global_vars:
    season: {type: str}
observability:
  enabled: true
  variable_visibility:
    external: [strength, season]
    internal: [reserves]
  matrix:
    - [Agent1, Agent1, insider, 0.0]
    - [Agent1, Agent2, external, 0.2]
    - [Agent1, global, unaware, null]
  default: {level: unaware, noise: 0.0}
"""


def test_good_observability() -> None:
    """The usual form is read; without a default whoever stands in no entry is unaware."""
    config = read(_OBSERVED)
    assert config.observability is not None
    without = read(_OBSERVED[: _OBSERVED.index("  default")]).observability
    assert without == config.observability
    entry = "{observer: Agent1, target: Agent2, level: external, noise: 0.2}"
    assert read(_OBSERVED.replace("[Agent1, Agent2, external, 0.2]", entry)) == config


@cases(
    "old, new, line, path, words",
    [
        ("insider, 0.0", "Insider, 0.0", 15, ".matrix[0][2]", "Invalid observability level 'Insider'"),
        ("level: unaware", "level: blind", 18, ".default.level", "Invalid observability level 'blind'"),
        ("[strength, season]", "[]", 12, ".variable_visibility.external", ""),
        (
            "[reserves]",
            "[strength]",
            11,
            ".variable_visibility",
            "Variables cannot be both external and internal: strength",
        ),
        ("[reserves]", "[gold]", 13, ".variable_visibility.internal[0]", "Unknown variable 'gold' in internal list"),
        (
            "[strength, season]",
            "[gold]",
            12,
            ".variable_visibility.external[0]",
            "Unknown variable 'gold' in external list",
        ),
        (
            "- [Agent1, Agent2",
            "- [Agent9, Agent2",
            16,
            ".matrix[1][0]",
            "Unknown observer 'Agent9' in observability matrix",
        ),
        (
            "- [Agent1, Agent2",
            "- [Agent1, Agent9",
            16,
            ".matrix[1][1]",
            "Unknown target 'Agent9' in observability matrix",
        ),
        ("- [Agent1, Agent2", "- [global, Agent2", 16, ".matrix[1][0]", "Unknown observer 'global'"),
        ("external, 0.2", "external, -0.2", 16, ".matrix[1][3]", "noise must be >= 0"),
        ("external, 0.2", "external, much", 16, ".matrix[1][3]", "noise must be a number >= 0"),
        ("external, 0.2", "external", 16, ".matrix[1]", "an entry is [observer, target, level, noise]"),
        ("noise: 0.0", "noise: -1", 18, ".default.noise", "Default noise must be >= 0"),
        ("noise: 0.0", "noise: null", 18, ".default.noise", "Default noise must be a number"),
        (
            "[Agent1, Agent1",
            "[Agent1, Agent2",
            16,
            ".matrix[1]",
            "Duplicate entry for observer 'Agent1' and target 'Agent2'",
        ),
        ("enabled: true", "enabled: yes", 10, ".enabled", "must be true or false, not a string"),
        ("  enabled: true\n", "", 9, ".enabled", "required: true or false"),
        ("    internal: [reserves]\n", "", 11, ".variable_visibility.internal", "required"),
        ("    external: [strength, season]\n", "", 11, ".variable_visibility.external", "required"),
        ("  matrix:", "  matrices:", 9, ".matrix", "required: a list of"),
        ("noise: 0.0", "noize: 0.0", 18, ".default.noize", "did you mean 'noise'?"),
    ],
)
def test_rules_of_observability(old: str, new: str, line: int, path: str, words: str) -> None:
    """Each rule is told at its line, in its words."""
    assert old in _OBSERVED
    found = problems(_OBSERVED.replace(old, new, 1))
    assert any((at, told) == (line, "observability" + path) and words in message for at, told, message in found), found
