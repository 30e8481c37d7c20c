/** `npm run cli-reference` writes the reference of all commands to dist/, to publish with a release. */
import { mkdir, writeFile } from 'node:fs/promises'
import { renderCliReference } from './cli-reference.ts'

const page = new URL('../dist/cli-reference.md', import.meta.url)
await mkdir(new URL('.', page), { recursive: true })
await writeFile(page, await renderCliReference())
