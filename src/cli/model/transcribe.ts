/** `berth transcribe`: the words of a recording, as text or subtitles. */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { formatUsdForPeople, nanoUsdToNumber } from '../../base/money.ts'
import type { Reply } from '../../client/client.ts'
import { fetchCost } from '../../client/request-cost.ts'
import { writeSrt, writeVtt } from '../../domain/subtitle.ts'
import { chooseModel, withNextStep } from './inference-call.ts'
import { custom } from '../kit/row.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { Row } from '../kit/row-type.ts'

type Format = 'text' | 'srt' | 'vtt'

interface TranscribeOptions {
  readonly model?: string
  readonly format: Format
}

type Transcription = Reply<'createTranscription'>

const EXAMPLE = 'berth transcribe meeting.wav'

export const rows: readonly Row[] = [
  custom<TranscribeOptions>('transcribe', 'turn a recording into text', {
    operation: 'createTranscription',
    only: ['model', 'language', 'prompt'],
    flags: {
      model: '-m, --model <name>  model (default: the first transcription model on sale)',
      language: '--language <code>  language of the recording, such as en',
      prompt: '--prompt <text>  names and words to expect, for models that take a prompt',
    },
    args: { '<file>': 'recording: WAV, MP3, FLAC or Ogg Opus' },
    options: {
      '--format <format>': { help: 'format of the text', choices: ['text', 'srt', 'vtt'], default: 'text' },
    },
    run: async ({ client, session, shell, options, args, input }) => {
      const file = String(args[0])
      const bytes = await readRecording(file)
      const model = await chooseModel(client, 'transcription', { name: options.model })
      const form = new FormData()
      const fields = { ...input.parts.body, model, response_format: 'verbose_json' }
      for (const [name, value] of Object.entries(fields)) form.set(name, value)
      form.set('file', new Blob([bytes]), path.basename(file))
      const sent = client.inferForm('createTranscription', form)
      const { requestId, answer } = await withNextStep(session, 'transcription', sent)
      const cost = await fetchCost(client, requestId)
      if (session.json) {
        const costNanoUsd = cost === undefined ? null : nanoUsdToNumber(cost)
        shell.write(`${JSON.stringify({ ...answer, model, requestId, costNanoUsd })}\n`)
        return
      }
      shell.write(writeAs(options.format, answer))
      const price = cost === undefined ? `berth cost ${requestId} shows the cost` : formatUsdForPeople(cost)
      shell.writeError(`${answer.usage.seconds.toFixed(1)} s of sound, ${price}\n`)
    },
    examples: [EXAMPLE, 'berth transcribe talk.mp3 --format srt > talk.srt'],
  }),
]

async function readRecording(file: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return Uint8Array.from(await readFile(file))
  } catch (error) {
    throw new CliError(exitCodes.failed, `Cannot read ${file}: ${(error as Error).message}.`, [
      `For example: ${EXAMPLE}`,
    ])
  }
}

function writeAs(format: Format, { text, segments = [] }: Transcription): string {
  if (format === 'srt') return writeSrt(segments)
  return format === 'vtt' ? writeVtt(segments) : `${text}\n`
}
