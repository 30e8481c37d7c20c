/** `@hyperbolic/ai-sdk-provider`: images and speech with the paths and names of the interface. */
import { createHyperbolic } from '@hyperbolic/ai-sdk-provider'
import { APICallError, experimental_generateSpeech as generateSpeech, generateImage } from 'ai'
import { describe, expect, test } from 'vitest'
import { grayPng, silentMp3 } from '../sim/model-server-answer.ts'
import { lastAsked, type Berth } from './berth.ts'
import { failureOf } from './outcome.ts'

export function hyperbolicSuite(berth: () => Berth): void {
  const provider = (apiKey = berth().customer.key) => createHyperbolic({ baseURL: berth().baseUrl, apiKey })

  describe('@hyperbolic/ai-sdk-provider', () => {
    test('generates an image on a server with the OpenAI format', async () => {
      const { painter } = berth()
      const model = provider().imageModel(painter.name)
      const { image } = await generateImage({ model, prompt: 'a harbour', size: '384x256', maxRetries: 0 })
      expect(Buffer.from(image.uint8Array).equals(grayPng(384, 256))).toBe(true)
      expect(image.mediaType).toBe('image/png')
      expect(lastAsked(painter)).toMatchObject({ model: 'their-name', prompt: 'a harbour', size: '384x256' })
    })

    test('passes image options to an engine that supports them', async () => {
      const { diffuser } = berth()
      const { image } = await generateImage({
        model: provider().imageModel(diffuser.name),
        prompt: 'a harbour',
        providerOptions: { hyperbolic: { steps: 12, cfgScale: 7.5, negativePrompt: 'fog' } },
        maxRetries: 0,
      })
      expect(Buffer.from(image.uint8Array).equals(grayPng(1024, 1024))).toBe(true)
      expect(lastAsked(diffuser)).toMatchObject({ steps: 12, cfg_scale: 7.5, negative_prompt: 'fog', width: 1024 })
    })

    test('generates speech', async () => {
      const { voice } = berth()
      const { audio } = await generateSpeech({
        model: provider().speechModel(voice.name),
        text: 'Ahoi, 🚢!',
        providerOptions: { hyperbolic: { speed: 1.5 } },
        maxRetries: 0,
      })
      expect(Buffer.from(audio.uint8Array).equals(silentMp3('Ahoi, 🚢!'))).toBe(true)
      expect(audio.mediaType).toBe('audio/mpeg')
      expect(lastAsked(voice)).toMatchObject({ model: 'their-name', input: 'Ahoi, 🚢!', speed: 1.5 })
    })

    test.each([
      ['an unknown model', 400, () => ({ name: 'nobody/nothing' })],
      ['a model that does not draw', 400, () => ({ name: berth().chat.name })],
      ['a wrong key', 401, () => ({ key: 'bk_wrong' })],
      ['no money', 402, async () => ({ key: (await berth().server.account()).key })],
    ])('raises its own error for %s', async (_what, statusCode, make) => {
      const { name = berth().painter.name, key }: { name?: string; key?: string } = await make()
      const model = provider(key).imageModel(name)
      const error = await failureOf(generateImage({ model, prompt: 'a harbour', maxRetries: 0 }))
      expect(APICallError.isInstance(error)).toBe(true)
      expect(error).toMatchObject({ statusCode })
      const { responseBody, message } = error as APICallError
      expect(message).toBe((JSON.parse(responseBody ?? '') as { error: { message: string } }).error.message)
    })
  })
}
