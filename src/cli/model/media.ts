/** `berth image`, `speak` and `embed`. In a terminal a bar shows the progress of an image. */
import { count, number } from '../../view/number.ts'
import { formatUsdForPeople, nanoUsdToNumber } from '../../base/money.ts'
import type { Reply } from '../../client/client.ts'
import { fetchCost } from '../../client/request-cost.ts'
import type { Chunk } from '../../client/inference.ts'
import { makeBar, noBar, type Bar } from '../kit/bar.ts'
import { chooseModel, withNextStep } from './inference-call.ts'
import { checkOutput, outputOptions, writeOutput, type OutputOptions } from '../kit/output-file.ts'
import { readPrompt } from '../kit/prompt.ts'
import { custom } from '../kit/row.ts'
import { bold, type Fact } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { Call, Row } from '../kit/row-type.ts'

const PREFERRED_IMAGE_MODEL = 'pictogram'
const IMAGE_EXAMPLE = 'berth image "a red apple" -o apple.png'
const SPEAK_EXAMPLE = 'berth speak "The ship is in the harbour." -o ship.mp3'
const EMBED_EXAMPLE = 'berth embed "The ship is in the harbour."'

interface ModelOptions {
  readonly model?: string
}

const MODEL = '-m, --model <name>  model'

export const rows: readonly Row[] = [
  custom<ModelOptions & OutputOptions & { quiet?: true }>('image', 'generate an image', {
    operation: 'generateImage',
    only: ['model_name', 'width', 'height', 'steps', 'cfg_scale', 'seed', 'negative_prompt'],
    isOptional: ['model_name'],
    flags: {
      model_name: `${MODEL} (default: ${PREFERRED_IMAGE_MODEL}, or the first on sale)`,
      width: '--width <pixels>  width',
      height: '--height <pixels>  height',
      steps: 'steps; more take longer and cost more',
      cfg_scale: 'how closely to follow the prompt',
      seed: 'the same seed draws the same image again',
      negative_prompt: '--negative <text>  things to leave out',
    },
    args: { '[prompt...]': 'description of the image; - reads standard input' },
    options: { ...outputOptions('PNG'), '-q, --quiet': 'show no progress bar' },
    run: async (call) => {
      const { session, shell, options, input } = call
      checkOutput(options)
      const prompt = await readPrompt(wordsIn(call), IMAGE_EXAMPLE)
      const model = await chooseModel(session.client, 'image', {
        name: options.model,
        preferred: PREFERRED_IMAGE_MODEL,
      })
      const hasBar = shell.color.error && !session.json && options.quiet === undefined
      const bar = hasBar ? makeBar((text) => shell.writeError(text)) : noBar
      const body = { ...input.parts.body, model_name: model, prompt }
      await withNextStep(session, 'image', generateImage(call, body, bar))
    },
    examples: [`${IMAGE_EXAMPLE} --width 512 --height 512 --seed 7`],
  }),
  custom<ModelOptions & OutputOptions & { speaker?: string }>('speak', 'turn text into speech', {
    operation: 'generateAudio',
    only: ['model', 'language', 'speaker', 'speed'],
    flags: {
      model: `${MODEL} (default: the first speech model on sale)`,
      speaker: '--voice <name>  voice, such as neural',
      speed: 'speed',
      language: '--language <code>  language, such as en-US',
    },
    args: { '[text...]': 'text to speak; - reads standard input' },
    options: {
      ...outputOptions('MP3'),
      '--speaker <name>': { help: 'same as --voice', conflicts: ['voice'], hidden: true },
    },
    run: async (call) => {
      const { session, options, input } = call
      checkOutput(options)
      const text = await readPrompt(wordsIn(call), SPEAK_EXAMPLE)
      const { speaker } = options
      const model = await chooseModel(session.client, 'speech', { name: options.model })
      await withNextStep(
        session,
        'speech',
        speak(call, { ...input.parts.body, ...(speaker === undefined ? {} : { speaker }), model, text }),
      )
    },
    examples: [`${SPEAK_EXAMPLE} --speed 1.2`, 'berth speak -o letter.mp3 < letter.txt'],
  }),
  custom<ModelOptions>('embed', 'turn text into a vector, printed as JSON', {
    operation: 'createEmbedding',
    only: ['model', 'dimensions'],
    isOptional: ['model'],
    flags: {
      model: `${MODEL} (default: the first embedding model on sale)`,
      dimensions: 'length of the vector',
    },
    args: { '[text...]': 'text to embed; - reads standard input' },
    run: async (call) => {
      const { session, shell, options, input } = call
      const text = await readPrompt(wordsIn(call), EMBED_EXAMPLE)
      const model = await chooseModel(session.client, 'embedding', { name: options.model })
      const body = { ...input.parts.body, model, input: text }
      const { answer } = await withNextStep(session, 'embedding', session.client.infer('createEmbedding', { body }))
      shell.write(`${JSON.stringify(session.json ? answer : answer.data[0]?.embedding)}\n`)
    },
    examples: [EMBED_EXAMPLE],
  }),
]

function wordsIn({ args }: Call): string[] {
  return (args[0] ?? []) as string[]
}

async function generateImage(
  call: Call<OutputOptions>,
  body: { readonly model_name: string; readonly prompt: string },
  bar: Bar,
): Promise<void> {
  const events = await call.client.stream('generateImage', { body })
  const { requestId } = events
  const result = await followImage(events, bar)
  const [image] = result.images
  if (image === undefined) throw noImage()
  const about = { model: body.model_name, seed: image.random_seed, seconds: result.inference_time }
  const { notes = [] } = result
  await save(call, Buffer.from(image.image, 'base64'), requestId, { ...about, notes }, [
    ['Model', about.model],
    ['Seed', String(about.seed)],
    ...notes.map((note): Fact => ['Note', note]),
  ])
}

/** Writes the file, and shows it with its cost. */
async function save(
  { client, screen, options }: Call<OutputOptions>,
  bytes: Buffer,
  requestId: string,
  about: object,
  facts: readonly Fact[],
): Promise<void> {
  writeOutput(options, bytes)
  const cost = await fetchCost(client, requestId)
  const costNanoUsd = cost === undefined ? null : nanoUsdToNumber(cost)
  screen.show({ file: options.output, bytes: bytes.length, ...about, requestId, costNanoUsd }, () => [
    ['File', bold(options.output)],
    ...facts,
    ['Cost', cost === undefined ? `not known yet: berth cost ${requestId}` : formatUsdForPeople(cost)],
    ['Request', requestId],
  ])
}

async function followImage(events: AsyncIterable<Chunk<'generateImage'>>, bar: Bar): Promise<Reply<'generateImage'>> {
  try {
    for await (const event of events) {
      if (event.type === 'result') return event
      if (event.type === 'queued') bar.draw(0, event.ahead === 0 ? 'next' : `${count(event.ahead, 'request')} ahead`)
      else bar.draw(event.step / event.steps, `${event.step} of ${event.steps} steps`)
    }
  } finally {
    bar.clear()
  }
  throw noImage()
}

function noImage(): CliError {
  return new CliError(exitCodes.failed, 'The response has no image.', ['Try again.'])
}

async function speak(
  call: Call<OutputOptions>,
  body: { readonly model: string; readonly text: string },
): Promise<void> {
  const { requestId, answer } = await call.client.infer('generateAudio', { body })
  const bytes = Buffer.from(answer.audio, 'base64')
  if (bytes.length === 0) throw new CliError(exitCodes.failed, 'The response has no audio.', ['Try again.'])
  const about = { model: body.model, seconds: answer.duration, characters: answer.usage }
  await save(call, bytes, requestId, about, [
    ['Model', body.model],
    ['Length', `${answer.duration.toFixed(1)} s, ${number(answer.usage)} characters`],
  ])
}
