/** `berth image`, `speak` and `embed`. In a terminal a bar shows the progress of an image. */
import { count, number } from '../view/number.ts'
import { formatUsdForPeople, nanoUsdToNumber, type NanoUsd } from '../base/money.ts'
import type { Reply } from '../client/client.ts'
import { fetchCost } from '../client/request-cost.ts'
import type { Chunk } from '../client/inference.ts'
import { chooseModel, withModels } from './inference-call.ts'
import { checkOutput, outputOptions, writeOutput, type OutputOptions } from './output-file.ts'
import { readPrompt } from './prompt.ts'
import { custom } from './row.ts'
import { fields, type Fact } from './screen.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'
import type { Call, Row } from './row-type.ts'

const FAVOURITE_IMAGE_MODEL = 'pictogram'
const IMAGE_EXAMPLE = 'berth image "a red apple" -o apple.png'
const SPEAK_EXAMPLE = 'berth speak "The ship is in the harbour." -o ship.mp3'
const EMBED_EXAMPLE = 'berth embed "The ship is in the harbour."'
const BAR_CHARS = 30

interface ModelOptions {
  readonly model?: string
}

const MODEL_FLAG = '-m, --model <name>'

export const rows: readonly Row[] = [
  custom<ModelOptions & OutputOptions & { quiet?: true }>({
    command: 'image',
    operation: 'generateImage',
    only: ['model_name', 'width', 'height', 'steps', 'cfg_scale', 'seed', 'negative_prompt'],
    isOptional: ['model_name'],
    flags: {
      model_name: { flag: MODEL_FLAG, help: `model (default: ${FAVOURITE_IMAGE_MODEL}, or the first on sale)` },
      width: { flag: '--width <pixels>', help: 'width' },
      height: { flag: '--height <pixels>', help: 'height' },
      steps: { help: 'steps; more take longer and cost more' },
      cfg_scale: { help: 'how closely to follow the prompt' },
      seed: { help: 'the same seed draws the same image again' },
      negative_prompt: { flag: '--negative <text>', help: 'things to leave out' },
    },
    description: 'generate an image',
    args: [{ name: '[prompt...]', help: 'description of the image; - reads standard input' }],
    options: [...outputOptions('PNG'), { flag: '-q, --quiet', help: 'show no progress bar' }],
    run: async (call) => {
      const { session, shell, options, input } = call
      checkOutput(options)
      const prompt = await readPrompt(wordsIn(call), IMAGE_EXAMPLE)
      const model = await chooseModel(session.client, 'image', {
        named: options.model,
        favourite: FAVOURITE_IMAGE_MODEL,
      })
      const bar = shell.colour.error && !session.json && options.quiet === undefined ? barIn(shell) : noBar
      const body = { ...input.parts.body, model_name: model, prompt }
      await withModels(session, 'image', generateImage(call, body, bar))
    },
    examples: [`${IMAGE_EXAMPLE} --width 512 --height 512 --seed 7`],
  }),
  custom<ModelOptions & OutputOptions & { speaker?: string }>({
    command: 'speak',
    operation: 'generateAudio',
    only: ['model', 'language', 'speaker', 'speed'],
    flags: {
      model: { flag: MODEL_FLAG, help: 'model (default: the first speech model on sale)' },
      speaker: { flag: '--voice <name>', help: 'voice, such as slt' },
      speed: { help: 'speed' },
      language: { flag: '--language <code>', help: 'language, such as en-US' },
    },
    description: 'turn text into speech',
    args: [{ name: '[text...]', help: 'text to speak; - reads standard input' }],
    options: [
      ...outputOptions('MP3'),
      { flag: '--speaker <name>', help: 'same as --voice', conflicts: ['voice'], hidden: true },
    ],
    run: async (call) => {
      const { session, options, input } = call
      checkOutput(options)
      const text = await readPrompt(wordsIn(call), SPEAK_EXAMPLE)
      const { speaker } = options
      const model = await chooseModel(session.client, 'speech', { named: options.model })
      await withModels(
        session,
        'speech',
        speak(call, { ...input.parts.body, ...(speaker === undefined ? {} : { speaker }), model, text }),
      )
    },
    examples: [`${SPEAK_EXAMPLE} --voice slt --speed 1.2`, 'berth speak -o letter.mp3 < letter.txt'],
  }),
  custom<ModelOptions>({
    command: 'embed',
    operation: 'createEmbedding',
    only: ['model', 'dimensions'],
    isOptional: ['model'],
    flags: {
      model: { flag: MODEL_FLAG, help: 'model (default: the first embedding model on sale)' },
      dimensions: { help: 'length of the vector' },
    },
    description: 'turn text into a vector, printed as JSON',
    args: [{ name: '[text...]', help: 'text to embed; - reads standard input' }],
    run: async (call) => {
      const { session, shell, options, input } = call
      const text = await readPrompt(wordsIn(call), EMBED_EXAMPLE)
      const model = await chooseModel(session.client, 'embedding', { named: options.model })
      const body = { ...input.parts.body, model, input: text }
      const { answer } = await withModels(session, 'embedding', session.client.infer('createEmbedding', { body }))
      shell.write(`${JSON.stringify(session.json ? answer : answer.data[0]?.embedding)}\n`)
    },
    examples: [EMBED_EXAMPLE],
  }),
]

function wordsIn({ args }: Call): string[] {
  return (args[0] ?? []) as string[]
}

async function generateImage(
  { client, screen, options }: Call<OutputOptions>,
  body: { readonly model_name: string; readonly prompt: string },
  bar: Bar,
): Promise<void> {
  const events = await client.stream('generateImage', { body })
  const { requestId } = events
  const result = await followImage(events, bar)
  const [image] = result.images
  if (image === undefined) throw noImage()
  const bytes = Buffer.from(image.image, 'base64')
  writeOutput(options, bytes)
  const cost = await fetchCost(client, requestId)
  const onWire = {
    file: options.output,
    bytes: bytes.length,
    model: body.model_name,
    seed: image.random_seed,
    seconds: result.inference_time,
    notes: result.notes ?? [],
    requestId,
    costNanoUsd: cost === undefined ? null : nanoUsdToNumber(cost),
  }
  screen.show(onWire, () =>
    fields(screen, [
      ['File', { text: options.output, style: 'bold' }],
      ['Model', onWire.model],
      ['Seed', String(onWire.seed)],
      costFact(cost, requestId),
      ['Request', requestId],
      ...onWire.notes.map((note) => ['Note', note] as const),
    ]),
  )
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
  { client, screen, options }: Call<OutputOptions>,
  body: { readonly model: string; readonly text: string },
): Promise<void> {
  const { requestId, answer } = await client.infer('generateAudio', { body })
  const bytes = Buffer.from(answer.audio, 'base64')
  if (bytes.length === 0) throw new CliError(exitCodes.failed, 'The response has no audio.', ['Try again.'])
  writeOutput(options, bytes)
  const cost = await fetchCost(client, requestId)
  const onWire = {
    file: options.output,
    bytes: bytes.length,
    model: body.model,
    seconds: answer.duration,
    characters: answer.usage,
    requestId,
    costNanoUsd: cost === undefined ? null : nanoUsdToNumber(cost),
  }
  screen.show(onWire, () =>
    fields(screen, [
      ['File', { text: options.output, style: 'bold' }],
      ['Model', body.model],
      ['Length', `${answer.duration.toFixed(1)} s, ${number(answer.usage)} characters`],
      costFact(cost, requestId),
      ['Request', requestId],
    ]),
  )
}

function costFact(cost: NanoUsd | undefined, requestId: string): Fact {
  return ['Cost', cost === undefined ? `not known yet: berth cost ${requestId}` : formatUsdForPeople(cost)]
}

interface Bar {
  draw(share: number, text: string): void
  clear(): void
}

const noBar: Bar = { draw: () => {}, clear: () => {} }

/** Redraws one line of the error output. */
function barIn(shell: Shell): Bar {
  return {
    draw: (share, text) => {
      const filled = Math.round(Math.min(1, Math.max(0, share)) * BAR_CHARS)
      shell.writeError(`\r\u001B[K${'█'.repeat(filled)}${'░'.repeat(BAR_CHARS - filled)} ${text}`)
    },
    clear: () => shell.writeError('\r\u001B[K'),
  }
}
