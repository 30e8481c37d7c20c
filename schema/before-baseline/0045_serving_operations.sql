-- Deployments as their operators run them: news that is told once, and the free time of starts.

-- By kind of news, when it was last recorded as an event (src/domain/serving.ts: isNews). Deployments go back and forth
-- between states within seconds; people are told once in a while.
alter table managed_deployment add column told jsonb not null default '{}';
