-- Why a host takes no tenants although it answers, such as: it cannot keep them apart. { reason, message }; null: there
-- is no fault. Written with each report; older servers neither write nor read it.

alter table host add column fault jsonb check (jsonb_typeof(fault) = 'object');
