-- Who bought most
--
-- What each buyer bought in all auctions, who spent most first.
--
-- :least numeric = 0 -- Only buyers that spent at least so much.
select bidder, lots, worlds, spent from auction_buyers where spent >= :least order by spent desc, bidder
