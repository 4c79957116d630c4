-- What moments are counted in, as the ruleset declares it; analytics.place_at reads this view.

create view simulation_units (unit, kinds, member, has_zero) as
values
    ('turn', array['SimulationStarted', 'TurnStarted'], 'turn', false);

comment on view simulation_units is 'What moments of simulations are counted in.';
comment on column simulation_units.unit is 'Its name in a moment.';
comment on column simulation_units.kinds is 'The kinds of effects that begin one.';
comment on column simulation_units.member is 'The member of their payloads that has its number; null: it follows from several.';
comment on column simulation_units.has_zero is 'Whether 0 is what lies before the first one.';
