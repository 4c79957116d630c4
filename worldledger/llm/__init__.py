"""Agents that are played by language models; the extra ``llm``. Source: docs/how-to-llm.md.

- `Thinker`: one agent, which observes, is interrupted and acts; `run_agent` runs it under a lease
- `Model`, `Request`, `Text`, `ToolCall`, `Usage`, `End`, `ModelError`: what a model of one's own is
- `worldledger.llm.openai.OpenAIModel`, `worldledger.llm.anthropic.AnthropicModel`: models of services that speak these
  protocols
- `Recall`, `recall_from`, `ancestors`: answers that stand in a log already
- `Persona`, `Prices`, `Budget`, `read_personas`: who a model plays
"""

from worldledger.llm.model import Chunk, End, Model, ModelError, Request, Text, Tool, ToolCall, Usage
from worldledger.llm.persona import Budget, Persona, Personas, Prices, read_personas
from worldledger.llm.recall import Recall, ancestors, recall_from
from worldledger.llm.runner import run_agent
from worldledger.llm.thinker import Generation, Thinker

__all__ = [
    "Budget",
    "Chunk",
    "End",
    "Generation",
    "Model",
    "ModelError",
    "Persona",
    "Personas",
    "Prices",
    "Recall",
    "Request",
    "Text",
    "Thinker",
    "Tool",
    "ToolCall",
    "Usage",
    "ancestors",
    "read_personas",
    "recall_from",
    "run_agent",
]
