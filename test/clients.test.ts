/** Clients that other people wrote for other servers, unchanged, over real HTTP. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { aiSdkSuite } from './clients/ai-sdk.ts'
import { seenOnFastPath, startBerth, type Berth } from './clients/berth.ts'
import { huggingFaceSuite } from './clients/hugging-face.ts'
import { hyperbolicSuite } from './clients/hyperbolic.ts'
import { openaiSuite } from './clients/openai.ts'
import { openaiConventionSuite } from './clients/openai-convention.ts'

// What it warns of is what its providers say of each other, and nothing about the server.
globalThis.AI_SDK_LOG_WARNINGS = false

let berth: Berth
beforeAll(async () => {
  berth = await startBerth()
})
afterAll(() => berth.close())

openaiSuite(() => berth)
openaiConventionSuite(() => berth)
aiSdkSuite(() => berth)
hyperbolicSuite(() => berth)
huggingFaceSuite(() => berth)

test.each(['OpenAI/', 'openai-compatible/', 'openrouter/', 'huggingface/'])(
  'what %s sends alone on a connection is plain enough for the fast path',
  (name) => {
    expect([...seenOnFastPath]).toContainEqual(expect.stringContaining(name))
  },
)
