/** Colors of lines: the theme's colors in turn, then dashed. */
const colors = [
  { word: 'accent', mark: 'border-accent' },
  { word: 'info', mark: 'border-info' },
  { word: 'warn', mark: 'border-warn' },
  { word: 'bad', mark: 'border-bad' },
  { word: 'muted', mark: 'border-muted' },
] as const

interface LineColor {
  /** A CSS variable of the theme, without `--`. */
  readonly word: string
  /** Border class in this color. */
  readonly mark: string
  readonly isDashed: boolean
}

export function lineColor(index: number): LineColor {
  const color = colors[index % colors.length] ?? colors[0]
  return { ...color, isDashed: Math.floor(index / colors.length) % 2 === 1 }
}
