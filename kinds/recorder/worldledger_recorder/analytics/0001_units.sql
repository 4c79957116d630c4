-- What moments are counted in, as the ruleset declares it; analytics.place_at reads this view.

create view recorder_units (unit, kinds, member, has_zero) as
values
    ('step', array['StepBegan'], 'step', true);

comment on view recorder_units is 'What moments of recorded programs are counted in.';
comment on column recorder_units.unit is 'Its name in a moment.';
comment on column recorder_units.kinds is 'The kinds of effects that begin one.';
comment on column recorder_units.member is 'The member of their payloads that has its number; null: it follows from several.';
comment on column recorder_units.has_zero is 'Whether 0 is what lies before the first one.';
