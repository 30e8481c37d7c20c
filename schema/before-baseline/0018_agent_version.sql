-- Which version of the agent a host runs, as it said when it last connected. null: it has not connected since this was
-- kept, or it has no agent.
alter table host add column agent_version text;
