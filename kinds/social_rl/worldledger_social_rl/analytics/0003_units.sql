-- What moments are counted in, as the ruleset declares it; analytics.place_at reads this view.

create view social_rl_units (unit, kinds, member, has_zero) as
values
    ('round', array['RoundStarted'], 'round_number', false);

comment on view social_rl_units is 'What moments of social-RL runs are counted in.';
comment on column social_rl_units.unit is 'Its name in a moment.';
comment on column social_rl_units.kinds is 'The kinds of effects that begin one.';
comment on column social_rl_units.member is 'The member of their payloads that has its number; null: it follows from several.';
comment on column social_rl_units.has_zero is 'Whether 0 is what lies before the first one.';
