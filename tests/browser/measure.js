// What a page looks like once it is laid out, in numbers. Evaluates to a function of nothing.
(() => {
  const shapes = "path, rect, circle, ellipse, line, polyline, polygon, use, image";

  const box = (element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    return { left: left + scrollX, top: top + scrollY, right: right + scrollX, bottom: bottom + scrollY };
  };

  // Colours as [red, green, blue, alpha].
  const colour = (css) => {
    const numbers = css.match(/[\d.]+/g)?.map(Number);
    return numbers && css.startsWith("rgb") ? [...numbers.slice(0, 3), numbers[3] ?? 1] : [0, 0, 0, 0];
  };
  const over = (top, below) => [0, 1, 2].map((k) => top[k] * top[3] + below[k] * (1 - top[3])).concat(1);
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  // As WCAG 2 defines it.
  const contrast = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };

  const opacity = (element) => {
    let share = 1;
    for (let e = element; e; e = e.parentElement) share *= Number(getComputedStyle(e).opacity);
    return share;
  };
  const behind = (element) => {
    let layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(colour(getComputedStyle(e).backgroundColor));
    return layers.reduceRight((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  // A plot paints in the order of its elements: what lies below a text came before it, or is its own rim.
  const behindPlotText = (text, svg) => {
    const style = getComputedStyle(text);
    if (style.paintOrder.startsWith("stroke") && style.stroke !== "none") return colour(style.stroke);
    const { left, top, right, bottom } = text.getBoundingClientRect();
    let paint = behind(svg);
    for (const shape of svg.querySelectorAll("path, rect, circle")) {
      if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) break;
      const centre = new DOMPoint((left + right) / 2, (top + bottom) / 2).matrixTransform(shape.getScreenCTM().inverse());
      if (!shape.isPointInFill(centre)) continue;
      const { fill, fillOpacity } = getComputedStyle(shape);
      const [r, g, b, alpha] = colour(fill);
      paint = over([r, g, b, alpha * Number(fillOpacity)], paint);
    }
    return paint;
  };
  const legibility = (text, element, ink, paper) => ({
    text: text.trim().slice(0, 60),
    ratio: contrast(over([...ink.slice(0, 3), ink[3] * opacity(element)], paper), paper),
  });

  const words = () => {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || element.closest("svg") || !element.checkVisibility()) continue;
      found.push(legibility(walker.currentNode.data, element, colour(getComputedStyle(element).color), behind(element)));
    }
    return found;
  };

  const plot = (svg) => {
    const texts = [...svg.querySelectorAll("text")];
    const marks = [...svg.querySelectorAll(shapes)].map((shape) => {
      const { width, height } = shape.getBBox();
      const paint = `${shape.getAttribute("fill")} ${shape.getAttribute("stroke")}`;
      return {
        tag: shape.tagName,
        // Colours of series and of steps of a scale; the rest is frame, grid and legend.
        coloured: /--[cv]\d/.test(paint),
        pieces: shape.tagName === "path" ? (shape.getAttribute("d").match(/M/g) ?? []).length : 1,
        length: Math.max(width, height),
      };
    });
    const around = box(svg);
    const outside = texts.filter((text) => {
      const b = box(text);
      return b.left < around.left - 1 || b.top < around.top - 1 || b.right > around.right + 1 || b.bottom > around.bottom + 1;
    });
    const attributes = [svg, ...svg.querySelectorAll("*")].flatMap((e) => [...e.attributes]);
    const notNumbers = attributes.filter((a) => a.name !== "aria-label" && /NaN|\binf/.test(a.value));
    return {
      title: svg.querySelector("title")?.textContent ?? "",
      description: svg.querySelector("desc")?.textContent ?? "",
      box: around,
      visible: svg.checkVisibility({ opacityProperty: true, visibilityProperty: true }),
      texts: texts.filter((text) => text.getBBox().width > 0).map((text) => text.textContent),
      marks,
      outside: outside.map((text) => text.textContent),
      notNumbers: notNumbers.map((a) => `${a.name}="${a.value.slice(0, 60)}"`),
      legibility: texts.map((text) =>
        legibility(text.textContent, text, colour(getComputedStyle(text).fill), behindPlotText(text, svg))),
    };
  };

  // Boxes that scroll by themselves may hold anything, but have to fit.
  const tooWide = () => {
    const edge = document.documentElement.clientWidth;
    const scrolls = (e) => e !== document.body && ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
    const inBox = (e) => e.parentElement && e !== document.body && (scrolls(e.parentElement) || inBox(e.parentElement));
    return [...document.body.querySelectorAll("*")]
      .filter((e) => !e.ownerSVGElement && !inBox(e) && box(e).right > edge + 0.5)
      .map((e) => `<${e.tagName.toLowerCase()} class="${e.getAttribute("class") ?? ""}">`);
  };

  return () => ({
    background: behind(document.body),
    width: [document.documentElement.scrollWidth, document.documentElement.clientWidth],
    tooWide: tooWide(),
    images: [...document.images].map((i) => ({ alt: i.alt, width: i.naturalWidth })),
    // An svg in an svg only cuts off what leaves the axes.
    plots: [...document.querySelectorAll("svg")].filter((svg) => !svg.ownerSVGElement).map(plot),
    words: words(),
  });
})()
