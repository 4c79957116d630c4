"""The views for the kinds of the rulesets chess, simulation and social_rl. See ``kinds.py``."""

from __future__ import annotations

from typing import Final

from worldledger_service.database.analytics.definitions import Column
from worldledger_service.database.analytics.kinds import Field, Kind, agent, value_at

_PLAYER: Final = Field("player", "text", "The colour: white or black.")
_PLY: Final = Field("ply", "bigint", "The number of the move in the game: 1 is the first, by either player.")

CHESS: Final = (
    Kind(
        "GameStarted",
        "a game of chess has begun.",
        (
            Field("white", "text", "The name of the player with the white pieces; null where unknown."),
            Field("black", "text", "The name of the player with the black pieces; null where unknown."),
            Field(
                "white_agent_id", "text", "The agent that plays white; null: it is called as in white.", "agents,white"
            ),
            Field(
                "black_agent_id", "text", "The agent that plays black; null: it is called as in black.", "agents,black"
            ),
            Field("event", "text", "The event, as recorded."),
            Field("site", "text", "Where it was played, as recorded."),
            Field("date", "text", "When it was played, as recorded."),
            Field("round", "text", "The round, as recorded."),
            Field("time_control", "text", "The time control, as recorded."),
            Field("variant", "text", "standard, chess960 or python-chess's name; null: standard."),
            Field("initial_fen", "text", "The position that it began with; null: the variant's usual one."),
            Field("tags", "json", "All tags of the record."),
            Field("comment", "text", "What stands before the first move of the record."),
            Field("sim_time_unit", "text", "What sim_time counts in a recorded game: seconds or plies."),
            Field("digest", "text", "The identity of a recorded game: SHA-256 in hex."),
        ),
    ),
    Kind(
        "MoveMade",
        "a move of a game of chess, as it was told. The projection moves has what is left out there.",
        (
            _PLY,
            _PLAYER,
            agent("The agent that moved."),
            Field("from_square", "text", "Like e2; null for a null move, and for a piece dropped from the hand."),
            Field("to_square", "text", "Like e4; null for a null move."),
            Field("piece", "text", "pawn, knight, bishop, rook, queen or king; null for a null move."),
            Field("uci_notation", "text", "The move as in UCI: e2e4, e7e8q, N@f3; 0000 is a null move."),
            Field("san_notation", "text", "The move in algebraic notation: e4, Nf3, O-O, exd5; -- is a null move."),
            Field("is_capture", "boolean", "Whether a piece was taken, en passant included."),
            Field("is_castling", "boolean", "Whether it was castling."),
            Field("is_promotion", "boolean", "Whether a pawn became another piece."),
            Field("promotion_piece", "text", "What the pawn became; null where there was no promotion."),
            Field("is_null", "boolean", "Whether it is no move at all, which recorded games may have."),
            Field("made_at", "time", "When it was made, where that is told.", "timestamp"),
            Field("thinking_time_s", "double", "Seconds that the move took; null where unknown.", "thinking_time"),
            Field("clock_s", "double", "Seconds left on the player's clock after it; null where unknown.", "clock"),
            Field(
                "evaluation_cp",
                "double",
                "The recorder's evaluation in centipawns, from White's side.",
                "evaluation,cp",
            ),
            Field("evaluation_mate", "double", "Moves to the mate that the recorder saw.", "evaluation,mate"),
            Field("comment", "text", "The recorder's comment."),
            Field("fen", "text", "The position after the move."),
        ),
    ),
    Kind(
        "MoveRejected",
        "a move that was tried and not made.",
        (
            _PLAYER,
            agent("The agent that tried."),
            Field("attempted", "text", "What was tried; null where unknown."),
            Field("reason", "text", "Why it was rejected; null: it was illegal."),
            Field("ply", "bigint", "The number that the move would have had."),
            Field("fen", "text", "The position in which it was tried."),
        ),
    ),
    Kind(
        "GameEnded",
        "a game of chess is over.",
        (
            Field("status", "text", "How it ended: checkmate, stalemate, resigned, timeout …"),
            Field("result", "text", "white_wins, black_wins or draw."),
            Field("reason", "text", "How it ended, more closely than status; null where that is not told."),
            Field("raw_result", "text", "The result in the words of the record."),
            Field("final_fen", "text", "The last position of a recorded game."),
            Field("plies", "bigint", "How many moves a recorded game has, by both players."),
            Field(
                "thinking_time_total_s",
                "double",
                "Seconds: of all moves of a recorded game; null unless every one is known.",
                "thinking_time_total",
            ),
            Field("variations_total", "bigint", "Sidelines of the record that were left out."),
        ),
    ),
)

_TURN: Final = Field("turn", "bigint", "The number of the turn.")
_CHANGES: Final = Field("patch", "json", "What changes of the variables: RFC 6902.")

SIMULATION: Final = (
    Kind(
        "SimulationStarted",
        "a simulation began, with every value of its beginning.",
        (
            Field("turn", "bigint", "The turn that it began with: 0, or its checkpoint's."),
            Field("agents", "json", "Each agent's variables, by name."),
            Field("global_state", "json", "The global variables."),
            Field("paused", "json", "Who was paused, and until which turn."),
            Field("checkpoint", "json", "The checkpoint that it was begun with; null for none."),
        ),
    ),
    Kind("TurnStarted", "a turn of a simulation began.", (_TURN,)),
    Kind("TurnEnded", "a turn of a simulation is over.", (_TURN,)),
    Kind(
        "AgentStateChanged", "variables of an agent changed.", (agent("The agent whose variables they are."), _CHANGES)
    ),
    Kind("GlobalStateChanged", "global variables changed.", (_CHANGES,)),
    Kind(
        "ReasoningRecorded",
        "what an agent said of its reasons.",
        (
            agent("The agent whose reasoning it is."),
            Field("reasoning", "text", "The reasoning: a text as it is, anything else as JSON text."),
            Field("model", "text", "The model that reasoned; null where that is not told."),
            Field("token_count", "bigint", "How many tokens it took; null where that is not told."),
        ),
    ),
    Kind(
        "AgentAdded",
        "an agent came into a simulation.",
        (agent(), Field("state", "json", "Its variables, as far as they are not the defaults.")),
    ),
    Kind("AgentRemoved", "an agent is gone from a simulation.", (agent(),)),
    Kind(
        "AgentPaused",
        "an agent does not act for a while.",
        (agent(), Field("turns", "bigint", "For how many turns; null: until it is resumed.")),
    ),
    Kind("AgentResumed", "an agent acts again.", (agent(),)),
)

_ROUND: Final = Field("round_number", "bigint", "The number of the round.")
_ROUND_AGENT: Final = Field("agent_id", "text", "The agent: Role+Name.")
_EXTRA: Final = Field("extra", "json", "What the record has beyond the fields of the schema.")

SOCIAL_RL: Final = (
    Kind(
        "ExperimentStarted",
        "a run of a social-RL experiment began: its meta block.",
        (
            Field("experiment_id", "text", "The name of the run in the record.", "meta,experiment_id"),
            Field("prar_run_id", "text", "The run of PRAR that its policies come from.", "meta,prar_run_id"),
            Field("framework", "text", "The framework, for people.", "meta,framework"),
            Field("framework_option", "text", "The framework's code: A to E.", "meta,framework_option"),
            Field("model", "text", "The language model.", "meta,model"),
            Field("performer_temperature", "double", "The temperature of the agents.", "meta,performer_temperature"),
            Field("coach_temperature", "double", "The temperature of the coach.", "meta,coach_temperature"),
            Field("social_rl_version", "text", "The version of the record's schema.", "meta,social_rl_version"),
            Field("run_at", "time", "When the run began, as recorded; UTC without an offset.", "meta,timestamp"),
            Field("condition", "text", "The condition of the experiment, where the record has one.", "extra,condition"),
            Field("seed", "bigint", "The seed of the run, where the record has one.", "extra,seed"),
            _EXTRA,
        ),
    ),
    Kind(
        "RoundStarted",
        "a round began.",
        (
            _ROUND,
            Field("round_config", "json", "The scenario, rules and tasks of the round."),
            Field("meta", "json", "The round file's own meta block."),
            _EXTRA,
        ),
    ),
    Kind(
        "MessageEmitted",
        "a message: of an agent of a social-RL round, or of anybody in a sandbox.",
        (
            agent("Who wrote it: the source, where the payload names nobody."),
            Column(
                "content",
                "coalesce(e.effect #>> '{payload,content}', e.effect #>> '{payload,text}', "
                "e.effect #>> '{payload,message}')",
                "What was said.",
            ),
            _ROUND,
            Field("turn_number", "bigint", "The number of the turn in the round."),
            Field("emitted_at", "time", "When it was written, as recorded.", "timestamp"),
            Field("prar_cue_used", "text", "The PRAR cue that was put before the agent."),
            Column(
                "is_internal",
                f"coalesce({value_at('boolean', 'payload,internal')}, false) "
                f"or {value_at('json', 'payload,extra,internal')} is not null",
                "Whether only coaches see it: it says that it is internal, or anything odd in that place.",
            ),
            Field("role", "text", "assistant, system or user; null where that is not told."),
            Field("feedback_snapshot", "json", "The agent's feedback when it was written."),
            Field("validation_metadata", "json", "What the coach found."),
            Field("context_frame", "json", "The context that the agent was given."),
            _EXTRA,
        ),
    ),
    Kind(
        "FeedbackRecorded",
        "the feedback that an agent got for a round.",
        (
            _ROUND_AGENT,
            _ROUND,
            Field("engagement", "double", "How much it took part: 0 to 1."),
            Field("theoretical_alignment", "double", "How far it kept to the framework: 0 to 1."),
            Field("contribution_value", "double", "How much it contributed: 0 to 1."),
            Field("direct_references", "bigint", "How often others referred to it."),
            Field("response_received", "bigint", "How many answers it got."),
            Field("concepts_embodied", "json", "The concepts that were found in what it said: a list."),
            Field("analyst_mentions", "bigint", "How often the analyst mentioned it."),
            Field("synthesis_inclusion", "double", "How much of it came into the synthesis: 0 to 1."),
            _EXTRA,
        ),
    ),
    Kind(
        "PolicyAdapted",
        "a cue of an agent was changed because of its feedback.",
        (
            _ROUND_AGENT,
            Field("adaptation_type", "text", "activate_cue, deactivate_cue or adjust_intensity."),
            Field("cue", "text", "The cue."),
            Field("intensity", "double", "Its intensity from here on; null where that is not told."),
            Field("reason", "text", "Why, for people."),
            _ROUND,
            Field("feedback_trigger", "json", "The feedback that led to it."),
            _EXTRA,
        ),
    ),
    Kind(
        "PolicyStateRecorded",
        "the policies of all roles at a moment, as PRAR gives them.",
        (
            Field("framework_option", "text", "The framework's code: A to E."),
            Field("framework_name", "text", "The framework, for people."),
            Field("policies", "json", "The policy of each role: its cues and their intensities."),
            Field("taken_at", "time", "When it was taken, as recorded; UTC without an offset.", "timestamp"),
            Field("source_run_id", "text", "The run of PRAR that it comes from."),
            Field("social_rl_version", "text", "The version of the record's schema."),
            _EXTRA,
        ),
    ),
    Kind(
        "RoundSynthesised",
        "the synthesis of a round.",
        (_ROUND, Field("synthesis", "text", "The synthesis."), _EXTRA),
    ),
    Kind(
        "RoundEnded",
        "a round is over.",
        (_ROUND, Field("duration_s", "double", "How long it took, in seconds.", "duration_seconds"), _EXTRA),
    ),
    Kind(
        "ArtifactRecorded",
        "another file of a run's folder.",
        (Field("name", "text", "The file's name."), Field("content", "json", "What stands in it.")),
    ),
)
