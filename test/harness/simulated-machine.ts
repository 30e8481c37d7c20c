/** Lets the simulated fleet pass for real machines, for tests of what happens on machines that can run a model. */
import { sql } from 'kysely'
import type { App } from '../../src/app/app.ts'

/** By a trigger, because every inventory writes the column again. */
export async function passForReal({ database: { db } }: Pick<App, 'database'>): Promise<void> {
  await sql`create function pass_for_real() returns trigger language plpgsql as $$
    begin new.simulation := null; return new; end $$`.execute(db)
  await sql`create trigger pass_for_real before insert or update on machine
    for each row execute function pass_for_real()`.execute(db)
  await sql`update machine set simulation = simulation`.execute(db)
}
