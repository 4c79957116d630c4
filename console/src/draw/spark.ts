/** A row's activity in small: a bar for each span. */

/** The path of bars in a box of this size, for numbers from nought to the greatest of them. */
export function bars(numbers: readonly number[], width: number, height: number): string {
  const most = Math.max(1, ...numbers);
  const wide = width / Math.max(1, numbers.length);
  return numbers.map((number, index) => {
    const tall = number === 0 ? 0 : Math.max(1, (number / most) * height);
    return tall === 0 ? "" : `M${round(index * wide)} ${height}v${-round(tall)}h${round(wide * 0.8)}v${round(tall)}z`;
  }).join("");
}

const round = (value: number) => Math.round(value * 10) / 10;
