-- LoRA adapters as models of their own, and the money of the house in an account.

-- The managed deployment that serves it as an adapter of its model. null: it is no adapter.
alter table model add column adapter_of text references managed_deployment on delete cascade;
-- Prices change with those of the base model, until it gets its own. Only for adapters.
alter table model add column follows_base_price boolean not null default false;
-- Visibility changes with that of the base model. Only for adapters.
alter table model add column follows_base_sharing boolean not null default false;
create index model_by_adapter_of on model (adapter_of) where adapter_of is not null;

-- Money that the house has put into an account for the GPUs of models for everyone, less what its ended replicas have
-- cost. What the living ones have cost is in their segments. The rest goes back to `revenue` when it is not needed.
create table house_money (
  account_id text primary key references account,
  given_nano bigint not null
);

-- Before, nothing was returned: what the living replicas hold and have cost is theirs, the rest stays with the operator.
insert into house_money (account_id, given_nano)
select d.account_id, sum(coalesce(h.amount_nano, 0) + coalesce(s.settled, 0))
from managed_deployment d
join replica p on p.deployment_id = d.id and p.state <> 'ended'
left join hold h on h.key = 'rental:' || p.rental_id
left join lateral (select sum(settled_nano) as settled from segment where rental_id = p.rental_id) s on true
where d.is_public group by d.account_id;
