/** `openai` 7, whose stream helper checks the grammar of the Responses API most strictly. It names a newer Node than ours. */
import { execFileSync } from 'node:child_process'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll } from 'vitest'
import { npmFolder } from '../scripts/cache-folder.ts'
import { startBerth, type Berth } from './clients/berth.ts'
import { responsesSuite, type ResponsesSdk } from './clients/responses.ts'
import { needs } from './needs.ts'

needs('npm')

const VERSION = '7.55.0'

let berth: Berth
beforeAll(async () => {
  berth = await startBerth()
})
afterAll(() => berth.close())

responsesSuite(
  () => berth,
  VERSION,
  async () => {
    // The package needs no other one.
    const folder = npmFolder(`openai-${VERSION}`, `openai@${VERSION}`, (work, archive) => {
      execFileSync('tar', ['xzf', archive, '-C', work])
    })
    const entry = pathToFileURL(path.join(folder, 'package', 'index.mjs'))
    return (await import(entry.href)) as ResponsesSdk
  },
)
