/** Lets simulated machines and GPUs pass for real ones, for tests of what only those may do. */
import { sql } from 'kysely'
import type { App } from '../../src/app/app.ts'

/** By a trigger, because every inventory writes the column again. Returns what ends it. */
export async function passForReal({ database: { db } }: Pick<App, 'database'>): Promise<() => Promise<unknown>> {
  await sql`create function pass_for_real() returns trigger language plpgsql as $$
    begin new.simulation := null; return new; end $$`.execute(db)
  await sql`create trigger pass_for_real before insert or update on machine
    for each row execute function pass_for_real()`.execute(db)
  await sql`update machine set simulation = simulation`.execute(db)
  return () => sql`drop function pass_for_real cascade`.execute(db)
}
