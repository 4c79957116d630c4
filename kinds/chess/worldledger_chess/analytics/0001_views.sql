-- Games of chess: one view for each kind of effect, of every world. What is not of its column's type is null.

create view game_started as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    e.effect #>> '{payload,white}' as white,
    e.effect #>> '{payload,black}' as black,
    e.effect #>> '{payload,agents,white}' as white_agent_id,
    e.effect #>> '{payload,agents,black}' as black_agent_id,
    e.effect #>> '{payload,event}' as event,
    e.effect #>> '{payload,site}' as site,
    e.effect #>> '{payload,date}' as date,
    e.effect #>> '{payload,round}' as round,
    e.effect #>> '{payload,time_control}' as time_control,
    e.effect #>> '{payload,variant}' as variant,
    e.effect #>> '{payload,initial_fen}' as initial_fen,
    e.effect #> '{payload,tags}' as tags,
    e.effect #>> '{payload,comment}' as comment,
    e.effect #>> '{payload,sim_time_unit}' as sim_time_unit,
    e.effect #>> '{payload,digest}' as digest,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GameStarted';
comment on view game_started is 'GameStarted: a game of chess has begun.';
comment on column game_started.world_id is 'The name of the world.';
comment on column game_started.experiment is 'The experiment that the world belongs to; null for none.';
comment on column game_started.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column game_started.sim_time_s is 'The world''s own time, in seconds.';
comment on column game_started.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column game_started.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column game_started.white is 'The name of the player with the white pieces; null where unknown.';
comment on column game_started.black is 'The name of the player with the black pieces; null where unknown.';
comment on column game_started.white_agent_id is 'The agent that plays white; null: it is called as in white.';
comment on column game_started.black_agent_id is 'The agent that plays black; null: it is called as in black.';
comment on column game_started.event is 'The event, as recorded.';
comment on column game_started.site is 'Where it was played, as recorded.';
comment on column game_started.date is 'When it was played, as recorded.';
comment on column game_started.round is 'The round, as recorded.';
comment on column game_started.time_control is 'The time control, as recorded.';
comment on column game_started.variant is 'standard, chess960 or python-chess''s name; null: standard.';
comment on column game_started.initial_fen is 'The position that it began with; null: the variant''s usual one.';
comment on column game_started.tags is 'All tags of the record.';
comment on column game_started.comment is 'What stands before the first move of the record.';
comment on column game_started.sim_time_unit is 'What sim_time counts in a recorded game: seconds or plies.';
comment on column game_started.digest is 'The identity of a recorded game: SHA-256 in hex.';
comment on column game_started.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column game_started.payload is 'All that the effect says, also what has no column here.';

create view move_made as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.json_bigint(e.effect #> '{payload,ply}') as ply,
    e.effect #>> '{payload,player}' as player,
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as agent_id,
    e.effect #>> '{payload,from_square}' as from_square,
    e.effect #>> '{payload,to_square}' as to_square,
    e.effect #>> '{payload,piece}' as piece,
    e.effect #>> '{payload,uci_notation}' as uci_notation,
    e.effect #>> '{payload,san_notation}' as san_notation,
    analytics.json_boolean(e.effect #> '{payload,is_capture}') as is_capture,
    analytics.json_boolean(e.effect #> '{payload,is_castling}') as is_castling,
    analytics.json_boolean(e.effect #> '{payload,is_promotion}') as is_promotion,
    e.effect #>> '{payload,promotion_piece}' as promotion_piece,
    analytics.json_boolean(e.effect #> '{payload,is_null}') as is_null,
    analytics.json_time(e.effect #> '{payload,timestamp}') as made_at,
    analytics.json_double(e.effect #> '{payload,thinking_time}') as thinking_time_s,
    analytics.json_double(e.effect #> '{payload,clock}') as clock_s,
    analytics.json_double(e.effect #> '{payload,evaluation,cp}') as evaluation_cp,
    analytics.json_double(e.effect #> '{payload,evaluation,mate}') as evaluation_mate,
    e.effect #>> '{payload,comment}' as comment,
    e.effect #>> '{payload,fen}' as fen,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'MoveMade';
comment on view move_made is 'MoveMade: a move of a game of chess, as it was told. The projection moves has what is left out there.';
comment on column move_made.world_id is 'The name of the world.';
comment on column move_made.experiment is 'The experiment that the world belongs to; null for none.';
comment on column move_made.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column move_made.sim_time_s is 'The world''s own time, in seconds.';
comment on column move_made.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column move_made.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column move_made.ply is 'The number of the move in the game: 1 is the first, by either player.';
comment on column move_made.player is 'The colour: white or black.';
comment on column move_made.agent_id is 'The agent that moved.';
comment on column move_made.from_square is 'Like e2; null for a null move, and for a piece dropped from the hand.';
comment on column move_made.to_square is 'Like e4; null for a null move.';
comment on column move_made.piece is 'pawn, knight, bishop, rook, queen or king; null for a null move.';
comment on column move_made.uci_notation is 'The move as in UCI: e2e4, e7e8q, N@f3; 0000 is a null move.';
comment on column move_made.san_notation is 'The move in algebraic notation: e4, Nf3, O-O, exd5; -- is a null move.';
comment on column move_made.is_capture is 'Whether a piece was taken, en passant included.';
comment on column move_made.is_castling is 'Whether it was castling.';
comment on column move_made.is_promotion is 'Whether a pawn became another piece.';
comment on column move_made.promotion_piece is 'What the pawn became; null where there was no promotion.';
comment on column move_made.is_null is 'Whether it is no move at all, which recorded games may have.';
comment on column move_made.made_at is 'When it was made, where that is told.';
comment on column move_made.thinking_time_s is 'Seconds that the move took; null where unknown.';
comment on column move_made.clock_s is 'Seconds left on the player''s clock after it; null where unknown.';
comment on column move_made.evaluation_cp is 'The recorder''s evaluation in centipawns, from White''s side.';
comment on column move_made.evaluation_mate is 'Moves to the mate that the recorder saw.';
comment on column move_made.comment is 'The recorder''s comment.';
comment on column move_made.fen is 'The position after the move.';
comment on column move_made.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column move_made.payload is 'All that the effect says, also what has no column here.';

create view move_rejected as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    e.effect #>> '{payload,player}' as player,
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as agent_id,
    e.effect #>> '{payload,attempted}' as attempted,
    e.effect #>> '{payload,reason}' as reason,
    analytics.json_bigint(e.effect #> '{payload,ply}') as ply,
    e.effect #>> '{payload,fen}' as fen,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'MoveRejected';
comment on view move_rejected is 'MoveRejected: a move that was tried and not made.';
comment on column move_rejected.world_id is 'The name of the world.';
comment on column move_rejected.experiment is 'The experiment that the world belongs to; null for none.';
comment on column move_rejected.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column move_rejected.sim_time_s is 'The world''s own time, in seconds.';
comment on column move_rejected.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column move_rejected.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column move_rejected.player is 'The colour: white or black.';
comment on column move_rejected.agent_id is 'The agent that tried.';
comment on column move_rejected.attempted is 'What was tried; null where unknown.';
comment on column move_rejected.reason is 'Why it was rejected; null: it was illegal.';
comment on column move_rejected.ply is 'The number that the move would have had.';
comment on column move_rejected.fen is 'The position in which it was tried.';
comment on column move_rejected.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column move_rejected.payload is 'All that the effect says, also what has no column here.';

create view game_ended as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    e.effect #>> '{payload,status}' as status,
    e.effect #>> '{payload,result}' as result,
    e.effect #>> '{payload,reason}' as reason,
    e.effect #>> '{payload,raw_result}' as raw_result,
    e.effect #>> '{payload,final_fen}' as final_fen,
    analytics.json_bigint(e.effect #> '{payload,plies}') as plies,
    analytics.json_double(e.effect #> '{payload,thinking_time_total}') as thinking_time_total_s,
    analytics.json_bigint(e.effect #> '{payload,variations_total}') as variations_total,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GameEnded';
comment on view game_ended is 'GameEnded: a game of chess is over.';
comment on column game_ended.world_id is 'The name of the world.';
comment on column game_ended.experiment is 'The experiment that the world belongs to; null for none.';
comment on column game_ended.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column game_ended.sim_time_s is 'The world''s own time, in seconds.';
comment on column game_ended.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column game_ended.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column game_ended.status is 'How it ended: checkmate, stalemate, resigned, timeout …';
comment on column game_ended.result is 'white_wins, black_wins or draw.';
comment on column game_ended.reason is 'How it ended, more closely than status; null where that is not told.';
comment on column game_ended.raw_result is 'The result in the words of the record.';
comment on column game_ended.final_fen is 'The last position of a recorded game.';
comment on column game_ended.plies is 'How many moves a recorded game has, by both players.';
comment on column game_ended.thinking_time_total_s is 'Seconds: of all moves of a recorded game; null unless every one is known.';
comment on column game_ended.variations_total is 'Sidelines of the record that were left out.';
comment on column game_ended.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column game_ended.payload is 'All that the effect says, also what has no column here.';
