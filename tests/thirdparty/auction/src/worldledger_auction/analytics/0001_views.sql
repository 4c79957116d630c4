create view bid_placed as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.source_id as bidder,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,lot}') as lot,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,amount}') as amount
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'BidPlaced' and e.world_id not in (select f.world_id from analytics.forks f);
comment on view bid_placed is 'BidPlaced: every bid of every auction, refused ones left out.';
comment on column bid_placed.amount is 'What was bid.';
