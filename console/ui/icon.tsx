/** Icons, drawn on a grid of 24 by 24. They decorate: a name is always beside them or on their button. */
import { cx } from './class.ts'

const circle = 'M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17Z'
const frame = 'M4 5h16v14H4z'

const icons = {
  home: 'M3.5 11.5 12 4l8.5 7.5M6 9.5v10h12v-10M10 19.5v-6h4v6',
  store:
    'M4 9.5l1.5-5h13l1.5 5a2.7 2.7 0 0 1-5.3 0 2.7 2.7 0 0 1-5.4 0 2.7 2.7 0 0 1-5.3 0ZM5.5 12v7.5h13V12M10 19.5V15h4v4.5',
  plus: `${circle}M12 8.5v7M8.5 12h7`,
  server: 'M4 4.5h16v6H4zM4 13.5h16v6H4zM7.5 7.5h.01M7.5 16.5h.01M11 7.5h5M11 16.5h5',
  disk: 'M4.5 6.5c0-1.7 3.4-3 7.5-3s7.5 1.3 7.5 3-3.4 3-7.5 3-7.5-1.3-7.5-3ZM4.5 6.5v11c0 1.7 3.4 3 7.5 3s7.5-1.3 7.5-3v-11M4.5 12c0 1.7 3.4 3 7.5 3s7.5-1.3 7.5-3',
  clock: `${circle}M12 7.5V12l3 2`,
  chat: 'M4 5h16v11H10l-4.5 3.5V16H4z',
  image: `${frame}M4 16l4.5-5 4 4.5 2.5-2.5 5 5M15.5 9h.01`,
  sound: 'M5 9.5v5h3.5l4.5 4v-13l-4.5 4zM16.5 9a4.2 4.2 0 0 1 0 6M19 6.5a8 8 0 0 1 0 11',
  microphone: 'M12 3.5a3 3 0 0 0-3 3V11a3 3 0 0 0 6 0V6.5a3 3 0 0 0-3-3ZM6 11a6 6 0 0 0 12 0M12 17v3.5M9 20.5h6',
  list: 'M8.5 6h12M8.5 12h12M8.5 18h12M4 6h.01M4 12h.01M4 18h.01',
  stack: 'M4 4.5h16v4H4zM4 11.5h16v4H4zM4 19.5h10',
  chart: 'M4 20h16M6.5 20v-7M12 20V5M17.5 20V10',
  card: 'M3 6h18v12H3zM3 10h18M6.5 14.5h4',
  key: 'M8 11a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM11 12.5 19.5 4M16 7.5l3 3',
  terminal: `${frame}M7.5 9.5l3 2.5-3 2.5M12.5 15h4`,
  link: 'M9 15l6-6M10.5 6.5 12 5a4.2 4.2 0 0 1 6 6l-1.5 1.5M13.5 17.5 12 19a4.2 4.2 0 0 1-6-6l1.5-1.5',
  users:
    'M9 5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7ZM2.5 19.5c.5-3.5 3-5.5 6.5-5.5s6 2 6.5 5.5M16 5.3a3.5 3.5 0 0 1 0 6.4M18 14.5c2 .7 3.2 2.5 3.5 5',
  chip: 'M7 7h10v10H7zM10 3.5V7M14 3.5V7M10 17v3.5M14 17v3.5M3.5 10H7M3.5 14H7M17 10h3.5M17 14h3.5',
  plug: 'M9 3.5V8M15 3.5V8M6.5 8h11v3.5a5.5 5.5 0 0 1-11 0zM12 17v3.5',
  money: `${circle}M14.8 9c-.5-1-1.5-1.5-2.8-1.5-1.7 0-2.9.8-2.9 2.2 0 3.2 5.8 1.4 5.8 4.6 0 1.4-1.2 2.2-2.9 2.2-1.4 0-2.5-.6-2.9-1.6M12 6v1.5M12 16.5V18`,
  gauge: 'M4.5 18a8.8 8.8 0 1 1 15 0M12 14.5l4-5',
  activity: 'M3 12h4l3-8 4 16 3-8h4',
  building: 'M5 20.5V4h9v16.5M14 9.5h5v11M3 20.5h18M8 8h3M8 12h3M8 16h3',
  tag: 'M4 4h8l8.5 8.5-8 8L4 12zM8 8h.01',
  cube: 'M12 3.5l8 4.5v8l-8 4.5L4 16V8zM4 8l8 4.5L20 8M12 12.5v8',
  shield: 'M12 3.5 19 6v5.5c0 4.5-3 7.5-7 9-4-1.5-7-4.5-7-9V6zM9 12l2 2 4-4',
  book: 'M5 4.5h14v15H7a2 2 0 0 1-2-2zM5 17.5a2 2 0 0 1 2-2h12',
  docs: 'M12 6.5c-2-1.5-5-2-8.5-2v13c3.5 0 6.5.5 8.5 2 2-1.5 5-2 8.5-2v-13c-3.5 0-6.5.5-8.5 2ZM12 6.5v13',
  layers: 'M12 3.5 21 8l-9 4.5L3 8zM3 12l9 4.5 9-4.5M3 16l9 4.5 9-4.5',
  cloud: 'M7 18.5a4.5 4.5 0 0 1-.4-9 6 6 0 0 1 11.3 1.3A3.9 3.9 0 0 1 17.5 18.5z',
  mail: `${frame}M4 6.5l8 6 8-6`,
  device: 'M8 3.5h8v17H8zM11 17.5h2',
  lock: 'M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3',
  search: 'M11 4.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM16 16l4.5 4.5',
  menu: 'M4 6.5h16M4 12h16M4 17.5h16',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4',
  moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5Z',
  screen: 'M3.5 5h17v11h-17zM9 20h6M12 16v4',
  bell: 'M6 16.5V11a6 6 0 0 1 12 0v5.5l1.5 1.5h-15zM10 20.5h4',
  down: 'M6 9l6 6 6-6',
  right: 'M9 6l6 6-6 6',
  sidebar: `${frame}M9.5 5v14`,
  exit: 'M14 4.5H5v15h9M10 12h10.5M17 8.5l3.5 3.5-3.5 3.5',
  open: 'M14 4.5h5.5V10M19.5 4.5 11 13M18 13.5v6H4.5V6h6',
  download: 'M12 4v11M7.5 11l4.5 4.5 4.5-4.5M4.5 20h15',
  play: 'M7 4.5v15l12-7.5z',
  stop: 'M6 6h12v12H6z',
  restart: 'M19.5 12a7.5 7.5 0 1 1-2.4-5.5l2.4 2.4M19.5 4v5h-5',
  trash: 'M4.5 6.5h15M9 6.5v-2h6v2M6.5 6.5l1 13h9l1-13M10 10.5v5M14 10.5v5',
  check: 'M5 12.5l4.5 4.5L19 7',
  warning: 'M12 4 21 19.5H3zM12 10v4.5M12 17h.01',
  globe: `${circle}M3.5 12h17M12 3.5c2.5 2.5 3.7 5.5 3.7 8.5s-1.2 6-3.7 8.5c-2.5-2.5-3.7-5.5-3.7-8.5s1.2-6 3.7-8.5Z`,
  columns: `${frame}M12 5v14`,
  sparkle: 'M12 4l2 6 6 2-6 2-2 6-2-6-6-2 6-2z',
} as const

export type IconName = keyof typeof icons

export function Icon({ name, className }: { name: IconName; className?: string }) {
  return (
    <svg
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.75"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      className={cx('size-[1.125rem] shrink-0', className)}
    >
      <path d={icons[name]} />
    </svg>
  )
}
