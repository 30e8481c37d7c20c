/** Writes the reference in docs/cli.md. `npm run cli-reference` after a change of a command; a test fails when stale. */
import { readFile, writeFile } from 'node:fs/promises'
import { withReference } from './cli-reference.ts'

const page = new URL('../docs/cli.md', import.meta.url)

await writeFile(page, await withReference(await readFile(page, 'utf8')))
