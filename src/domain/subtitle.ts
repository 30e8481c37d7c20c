/** Subtitles: SubRip and WebVTT. */

export interface Segment {
  /** In seconds. */
  readonly start: number
  readonly end: number
  readonly text: string
}

export function writeSrt(segments: readonly Segment[]): string {
  return segments
    .map(({ start, end, text }, at) => `${at + 1}\n${clock(start, ',')} --> ${clock(end, ',')}\n${oneLine(text)}\n\n`)
    .join('')
}

export function writeVtt(segments: readonly Segment[]): string {
  const cues = segments.map(
    ({ start, end, text }) => `${clock(start, '.')} --> ${clock(end, '.')}\n${oneLine(text)}\n\n`,
  )
  return `WEBVTT\n\n${cues.join('')}`
}

/** An empty line would end the cue, and an arrow would begin another. */
function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').replaceAll('-->', '->').trim()
}

/** `00:01:02,345` */
function clock(seconds: number, separator: string): string {
  const ms = Math.round(seconds * 1_000)
  const two = (value: number): string => String(Math.floor(value)).padStart(2, '0')
  const whole = `${two(ms / 3_600_000)}:${two((ms / 60_000) % 60)}:${two((ms / 1_000) % 60)}`
  return `${whole}${separator}${String(ms % 1_000).padStart(3, '0')}`
}
