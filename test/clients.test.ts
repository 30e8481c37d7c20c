/** Clients that other people wrote for other servers, unchanged, over real HTTP. */
import { afterAll, beforeAll } from 'vitest'
import { startBerth, type Berth } from './clients/berth.ts'
import { openaiSuite } from './clients/openai.ts'

let berth: Berth
beforeAll(async () => {
  berth = await startBerth()
})
afterAll(() => berth.close())

openaiSuite(() => berth)
