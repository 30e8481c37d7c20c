/** The current color scheme, for what CSS cannot style. */
import { useSyncExternalStore } from 'react'

export type Scheme = 'light' | 'dark'

const systemIsDark = matchMedia('(prefers-color-scheme: dark)')

function subscribe(listener: () => void): () => void {
  const chosen = new MutationObserver(listener)
  chosen.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] })
  systemIsDark.addEventListener('change', listener)
  return () => {
    chosen.disconnect()
    systemIsDark.removeEventListener('change', listener)
  }
}

function readScheme(): Scheme {
  const chosen = document.documentElement.dataset['theme']
  if (chosen === 'light' || chosen === 'dark') return chosen
  return systemIsDark.matches ? 'dark' : 'light'
}

export function useScheme(): Scheme {
  return useSyncExternalStore(subscribe, readScheme)
}

/**
 * A color of the theme, `--word`. Colors are light/dark pairs that only the browser resolves. A new element is used,
 * because an existing one may be in a transition.
 */
export function readColor(word: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(--${word})`
  document.documentElement.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
