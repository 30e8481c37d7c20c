/** Writes the tables in docs/ that come from the contract. Run `npm run doc-tables`; a test fails when one is stale. */
import { readFile, writeFile } from 'node:fs/promises'
import { fillTables, pagesWithTables } from './doc-tables.ts'

for (const page of pagesWithTables) await writeFile(page, fillTables(await readFile(page, 'utf8')))
