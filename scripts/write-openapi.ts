/** Writes the descriptions that are committed. `npm run openapi` after a change of the contract; a test fails when stale. */
import { mkdir, writeFile } from 'node:fs/promises'
import { describeApi } from '../src/contract/openapi/openapi.ts'

const folder = new URL('../openapi/', import.meta.url)

await mkdir(folder, { recursive: true })
for (const selection of ['v2', 'all'] as const) {
  const text = `${JSON.stringify(describeApi(selection), null, 2)}\n`
  await writeFile(new URL(`${selection}.json`, folder), text)
  console.log(`openapi/${selection}.json: ${Math.round(text.length / 1024)} KiB`)
}
