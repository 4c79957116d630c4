-- What moments are counted in, as the ruleset declares it; analytics.place_at reads this view.

create view chess_units (unit, kinds, member, has_zero) as
values
    ('ply', array['MoveMade'], 'ply', true),
    ('step', array['MoveMade'], 'ply', true),
    ('move', array['MoveMade'], null, true);

comment on view chess_units is 'What moments of games of chess are counted in.';
comment on column chess_units.unit is 'Its name in a moment.';
comment on column chess_units.kinds is 'The kinds of effects that begin one.';
comment on column chess_units.member is 'The member of their payloads that has its number; null: it follows from several.';
comment on column chess_units.has_zero is 'Whether 0 is what lies before the first one.';
