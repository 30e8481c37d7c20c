/** Writes docs/errors.md. Run `npm run error-reference` after a change of the reasons; a test fails when it is stale. */
import { writeFile } from 'node:fs/promises'
import { renderErrorReference } from './error-reference.ts'

await writeFile(new URL('../docs/errors.md', import.meta.url), renderErrorReference())
