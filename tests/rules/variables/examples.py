"""Examples of variables in YAML, and the defaults they are to give."""

from __future__ import annotations

from typing import Any

EXAMPLES: dict[str, tuple[str, dict[str, Any]]] = {
    "Example of dict depth counting": (
        """\
# Depth 1: dict
inventory: {type: dict, key_type: str, value_type: int}

# Depth 2: dict[str, dict[str, int]]
nested: {type: dict, key_type: str, value_type: {type: dict, key_type: str, value_type: int}}

# Depth 4 (maximum for dict)
deeply_nested:
  type: dict
  key_type: str
  value_type:
    type: dict
    key_type: str
    value_type:
      type: dict
      key_type: str
      value_type:
        type: dict
        key_type: str
        value_type: int
""",
        {"inventory": {}, "nested": {}, "deeply_nested": {}},
    ),
    "Dynamic keys inventory": (
        """\
state_variables:
  agent_vars:
    inventory:
      type: dict
      key_type: str
      value_type: float
      default: {}
""",
        {"inventory": {}},
    ),
    "Fixed schema stats": (
        """\
state_variables:
  agent_vars:
    stats:
      type: dict
      schema:
        health:
          type: float
          min: 0
          max: 100
          default: 100
        mana:
          type: float
          min: 0
          max: 100
          default: 100
        stamina:
          type: int
          min: 0
          max: 10
          default: 10
      default:
        health: 100
        mana: 100
        stamina: 10
""",
        {"stats": {"health": 100.0, "mana": 100.0, "stamina": 10}},
    ),
    "Nested dict (towns with inventories)": (
        """\
state_variables:
  global_vars:
    towns:
      type: dict
      key_type: str
      value_type:
        type: dict
        schema:
          population:
            type: int
            min: 0
            default: 1000
          resources:
            type: dict
            key_type: str
            value_type: float
            default: {}
      default: {}
""",
        {"towns": {}},
    ),
    "Simple string list": (
        """\
state_variables:
  agent_vars:
    action_history:
      type: list
      item_type: str
      max_length: 10
      default: []
""",
        {"action_history": []},
    ),
    "List of tuples (position history)": (
        """\
state_variables:
  agent_vars:
    position_history:
      type: list
      item_type:
        type: tuple
        item_types: [float, float]
      max_length: 100
      default: []
""",
        {"position_history": []},
    ),
    "Nested list (list of lists)": (
        """\
state_variables:
  agent_vars:
    grid_data:
      type: list
      item_type:
        type: list
        item_type: int
      default: []
""",
        {"grid_data": []},
    ),
    "2D coordinates": (
        """\
state_variables:
  agent_vars:
    location:
      type: tuple
      item_types: [float, float]
      default: [0.0, 0.0]
""",
        {"location": [0.0, 0.0]},
    ),
    "RGB color with constraints": (
        """\
state_variables:
  agent_vars:
    color:
      type: tuple
      item_types:
        - type: int
          min: 0
          max: 255
        - type: int
          min: 0
          max: 255
        - type: int
          min: 0
          max: 255
      default: [255, 255, 255]
""",
        {"color": [255, 255, 255]},
    ),
    "Heterogeneous tuple (id, name, coordinates)": (
        """\
state_variables:
  agent_vars:
    entity_data:
      type: tuple
      item_types:
        - int              # ID
        - str              # Name
        - type: tuple      # Coordinates
          item_types: [float, float]
      default: [0, "Unknown", [0.0, 0.0]]
""",
        {"entity_data": [0, "Unknown", [0.0, 0.0]]},
    ),
    "Unrestricted string": (
        """\
state_variables:
  agent_vars:
    target_destination:
      type: str
      default: null
""",
        {"target_destination": None},
    ),
    "Pattern-validated string": (
        """\
state_variables:
  agent_vars:
    agent_name:
      type: str
      pattern: "^[A-Za-z][A-Za-z0-9_]{2,19}$"
      max_length: 20
      default: "Agent_1"
""",
        {"agent_name": "Agent_1"},
    ),
    "String with length constraint": (
        """\
state_variables:
  agent_vars:
    notes:
      type: str
      max_length: 500
      default: ""
""",
        {"notes": ""},
    ),
    "Nested object (town structure)": (
        """\
state_variables:
  global_vars:
    capital:
      type: object
      schema:
        name:
          type: str
          default: "Capital City"
        position:
          type: tuple
          item_types: [float, float]
          default: [0.0, 0.0]
        population:
          type: int
          min: 0
          default: 10000
        resources:
          type: dict
          key_type: str
          value_type: float
          default: {}
      default:
        name: "Capital City"
        position: [0.0, 0.0]
        population: 10000
        resources: {}
""",
        {"capital": {"name": "Capital City", "position": [0.0, 0.0], "population": 10000, "resources": {}}},
    ),
}
