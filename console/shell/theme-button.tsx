/** Light, dark or system theme, stored in this browser. */
import { useState } from 'react'
import { Button } from '../ui/button.tsx'
import { Icon, type IconName } from '../ui/icon.tsx'

const STORE = 'berth.theme'
const themes = ['system', 'light', 'dark'] as const
type Theme = (typeof themes)[number]
const labels: Readonly<Record<Theme, string>> = { system: 'System theme', light: 'Light theme', dark: 'Dark theme' }
const icons: Readonly<Record<Theme, IconName>> = { system: 'screen', light: 'sun', dark: 'moon' }

export function ThemeButton() {
  const [theme, setTheme] = useState<Theme>(readTheme)
  const choose = (): void => {
    const next = themes[(themes.indexOf(theme) + 1) % themes.length] ?? 'system'
    if (next === 'system') {
      localStorage.removeItem(STORE)
      delete document.documentElement.dataset['theme']
    } else {
      localStorage.setItem(STORE, next)
      document.documentElement.dataset['theme'] = next
    }
    setTheme(next)
  }
  return (
    <Button
      look="quiet"
      onClick={choose}
      aria-label={`${labels[theme]}, change`}
      title={labels[theme]}
      className="px-2.5"
    >
      <Icon name={icons[theme]} />
    </Button>
  )
}

function readTheme(): Theme {
  const stored = localStorage.getItem(STORE)
  return themes.find((theme) => theme === stored) ?? 'system'
}
