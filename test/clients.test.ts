/** Unmodified third-party clients over real HTTP. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { anthropicSuite } from './clients/anthropic.ts'
import { aiSdkSuite } from './clients/ai-sdk.ts'
import { seenOnFastPath, startBerth, type Berth } from './clients/berth.ts'
import { huggingFaceSuite } from './clients/hugging-face.ts'
import { hyperbolicSuite } from './clients/hyperbolic.ts'
import { openaiSuite } from './clients/openai.ts'
import { openaiConventionSuite } from './clients/openai-convention.ts'
import { responsesSuite, type ResponsesSdk } from './clients/responses.ts'

// Its warnings are about its providers, not about this server.
globalThis.AI_SDK_LOG_WARNINGS = false

let berth: Berth
beforeAll(async () => {
  berth = await startBerth()
})
afterAll(() => berth.close())

openaiSuite(() => berth)
anthropicSuite(() => berth)
openaiConventionSuite(() => berth)
responsesSuite(
  () => berth,
  '6.49',
  (): Promise<ResponsesSdk> => import('openai'),
)
aiSdkSuite(() => berth)
hyperbolicSuite(() => berth)
huggingFaceSuite(() => berth)

test.each(['OpenAI/', 'openai-compatible/', 'openrouter/', 'huggingface/'])(
  'P65: a chat of %s on a fresh connection is served by the fast path',
  (name) => {
    expect([...seenOnFastPath]).toContainEqual(expect.stringContaining(name))
  },
)
