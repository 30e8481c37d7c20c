/**
 * The voice that comes with Berth, and how a request selects it. It is neural and synthesizes about fifteen times faster
 * than real time, once it has loaded (some seconds after the start).
 */
import { failField, ok, type Result } from '../../contract/result.ts'

export type Kbps = 64 | 48 | 40 | 32

export const SPEAKER = 'neural'
export const LANGUAGE = 'en-US'
export const SAMPLE_RATE = 44_100

/** Speeds at which the voice sounds good. Beyond them the sound is stretched or shortened afterwards. */
export const SPEEDS = { min: 0.7, max: 2 } as const
/** The maximum length of a piece. The time and memory of the synthesis grow with its square. */
export const PIECE_CHARS = 160
/** Approximate, at speed 1. */
export const CHARS_PER_SECOND = 11

/**
 * Default English voices of other services, the OpenAI names, which OpenAI clients must send, and voices of earlier
 * versions.
 */
const names: ReadonlySet<string> = new Set(
  [
    SPEAKER,
    'default en-us en-default',
    'alloy ash ballad cedar coral echo fable marin nova onyx sage shimmer verse',
    'slt rms awb kal',
  ].flatMap((list) => list.split(' ')),
)

/** Ignores case and treats `_` like `-`. A failure lists what there is. */
export function checkVoice(speaker: string | undefined, language: string | undefined): Result<void> {
  if (language !== undefined && !isEnglish(plain(language))) {
    return failField(['language'], 'not_available', { name: 'language', available: ['en', LANGUAGE] })
  }
  if (speaker === undefined || names.has(plain(speaker))) return ok(undefined)
  return failField(['speaker'], 'not_available', { name: 'speaker', available: [SPEAKER] })
}

/** Larger MP3s are encoded at a lower bit rate, since clients limit the size of an answer. */
const MAX_MP3_BYTES = 45_000_000
const rates: readonly Kbps[] = [64, 48, 40, 32]

export function chooseKbps(chars: number, speed: number): Kbps {
  const seconds = chars / CHARS_PER_SECOND / speed
  return rates.find((kbps) => seconds * kbps * 125 <= MAX_MP3_BYTES) ?? 32
}

function isEnglish(tag: string): boolean {
  return tag === 'en' || tag === LANGUAGE.toLowerCase()
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll('_', '-')
}
