/** Colours of lines: the theme's colours in turn, then dashed. */
const colours = [
  { word: 'accent', mark: 'border-accent' },
  { word: 'info', mark: 'border-info' },
  { word: 'warn', mark: 'border-warn' },
  { word: 'bad', mark: 'border-bad' },
  { word: 'muted', mark: 'border-muted' },
] as const

interface LineColour {
  /** A CSS variable of the theme, without `--`. */
  readonly word: string
  /** Border class in this colour. */
  readonly mark: string
  readonly isDashed: boolean
}

export function lineColour(index: number): LineColour {
  const colour = colours[index % colours.length] ?? colours[0]
  return { ...colour, isDashed: Math.floor(index / colours.length) % 2 === 1 }
}
