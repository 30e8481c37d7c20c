/** The colours of lines: the words of the theme in turn, then the same again, dashed. */
const colours = [
  { word: 'accent', mark: 'border-accent' },
  { word: 'info', mark: 'border-info' },
  { word: 'warn', mark: 'border-warn' },
  { word: 'bad', mark: 'border-bad' },
  { word: 'muted', mark: 'border-muted' },
] as const

interface LineColour {
  /** A colour of the theme, `--word`. */
  readonly word: string
  /** The class of a border in it. */
  readonly mark: string
  readonly isDashed: boolean
}

export function lineColour(index: number): LineColour {
  const colour = colours[index % colours.length] ?? colours[0]
  return { ...colour, isDashed: Math.floor(index / colours.length) % 2 === 1 }
}
